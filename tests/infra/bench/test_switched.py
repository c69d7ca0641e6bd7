"""One training with and without Holter's calls in turn."""

from __future__ import annotations

import pytest

from holter.infra.bench.own_time import OwnTime
from holter.infra.bench.switched import Switched
from holter.infra.bench.turns import StepSeconds


class Worn:
    """Takes a second of a clock of its own, and counts."""

    now = 0.0

    def __init__(self) -> None:
        self.num_seen = 0

    def step(self) -> None:
        self.num_seen += 1
        Worn.now += 1.0


def test_turns_with_it_begin_at_multiples_of_their_size_and_cost_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("step", "now"):
        monkeypatch.setattr(Worn, name, vars(Worn)[name])  # taken back at the end
    own, worn = OwnTime(lambda: Worn.now), Worn()
    own.watch(Worn, ("step",))
    switched = Switched(3, lambda: Worn.now, own)
    turns: list[tuple[bool, int]] = []
    for _ in range(18):
        switched.begin_step()
        Worn.now += 10.0  # the training's own
        worn.step()
        turns.append((own.is_off, worn.num_seen))
    off, on = ([number for was_off, number in turns if was_off is wanted] for wanted in (True, False))
    assert off == [0, 0, 0, 2, 2, 2, 5, 5, 5, 8]
    assert on == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [(step.cpu, step.own) for step in switched.plain] == [(10.0, 0.0)] * 3
    assert [(step.cpu, step.own) for step in switched.worn] == [(11.0, 1.0)] * 3
    assert all(isinstance(step, StepSeconds) for step in switched.plain)
