"""One training with and without Holter's calls in turn."""

from __future__ import annotations

import itertools

import pytest

from holter.infra.bench.own_time import OwnTime
from holter.infra.bench.switched import SAVE_EVERY, Switched, num_steps_of

_OWN, _SAVING, _LEFT_BEHIND = 1.0, 30.0, 4.0


class Worn:
    """Takes a second of a clock of its own, more where it saves, and leaves some behind for the step after."""

    now = 0.0

    def __init__(self) -> None:
        self.num_seen = 0
        self.left_behind = 0.0

    def step(self) -> None:
        self.num_seen += 1
        self.left_behind = _LEFT_BEHIND
        Worn.now += _SAVING if self.num_seen % SAVE_EVERY == 0 else _OWN


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> tuple[Switched, list[tuple[bool, int]]]:
    """Of twenty turns, and of every step whether Holter was left out and how many it had seen."""
    for name in ("step", "now"):
        monkeypatch.setattr(Worn, name, vars(Worn)[name])  # taken back at the end
    own, worn = OwnTime(lambda: Worn.now), Worn()
    own.watch(Worn, ("step",))
    switched = Switched(lambda: Worn.now, own)
    steps: list[tuple[bool, int]] = []
    for _ in range(num_steps_of(20)):
        switched.begin_step()
        left_behind, worn.left_behind = worn.left_behind, 0.0
        Worn.now += 10.0 + left_behind  # the training's own, beside what the step before left
        worn.step()
        steps.append((own.is_off, worn.num_seen))
    return switched, steps


def test_turns_are_three_steps_long_and_six_where_one_saves(trained: tuple[Switched, list[tuple[bool, int]]]) -> None:
    _, steps = trained
    firsts = [at for at, (is_off, _) in enumerate(steps) if at == 0 or is_off is not steps[at - 1][0]]
    sizes = [end - begin for begin, end in itertools.pairwise(firsts)]
    assert steps[0][0]
    assert sizes[0::2][:15] == [3] * 15
    assert sizes[1::2][:15] == [4, 3, 3, 3, 3, 3, 6, 3, 3, 3, 3, 3, 6, 3, 3]


def test_each_turn_costs_what_it_takes_and_what_the_steps_before_left(
    trained: tuple[Switched, list[tuple[bool, int]]],
) -> None:
    switched, _ = trained
    assert len(switched.worn) >= 20
    assert len(switched.plain) > len(switched.worn[:20])
    assert {step.cpu for step in switched.plain} == {10.0}
    worn = list(zip(switched.worn, switched.saves, strict=True))
    assert {step.cpu for step, is_saving in worn if not is_saving} == {10.0 + _OWN + _LEFT_BEHIND}
    saved = 10.0 + _LEFT_BEHIND + (4 * _OWN + _SAVING) / 5
    assert [step.cpu for step, is_saving in worn if is_saving] == pytest.approx([saved] * sum(switched.saves))
    assert [at for at, is_saving in enumerate(switched.saves) if is_saving] == [6, 12, 18]
    assert {step.own for step, is_saving in worn if not is_saving} == {_OWN}
