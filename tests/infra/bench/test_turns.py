"""Two trainings that take turns, and what is computed from their blocks."""

from __future__ import annotations

import time

import pytest

from holter.infra.bench.own_time import OwnTime
from holter.infra.bench.paired import Differences, differences
from holter.infra.bench.turns import Side, take_turns


def sides(block_steps: int) -> tuple[Side, Side]:
    first, second = (Side(block_steps, time.thread_time, lambda: 0.0) for _ in range(2))
    return first, second


def test_blocks_come_in_turn_and_each_begins_at_a_multiple_of_its_size() -> None:
    first, second = sides(3)
    order: list[tuple[str, int]] = []

    def training(side: Side) -> None:
        for step in range(1, 10):
            side.begin_step()
            order.append(("first" if side is first else "second", step))

    take_turns(first, second, training)
    names = ["first", "second"] * 3 + ["first"]
    blocks = [[1, 2], [1, 2], [3, 4, 5], [3, 4, 5], [6, 7, 8], [6, 7, 8], [9]]
    assert order[:17] == [(name, step) for name, block in zip(names, blocks, strict=True) for step in block]
    assert [len(block) for block in first.blocks()] == [3, 3]
    assert len(first.steps) == 8


def test_what_one_raises_is_raised_and_the_other_ends() -> None:
    first, second = sides(1)

    def training(side: Side) -> None:
        for step in range(4):
            side.begin_step()
            if side is first and step == 2:
                raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        take_turns(first, second, training)
    assert len(second.steps) == 3


def test_a_drift_of_the_machine_is_no_difference() -> None:
    plain = [50.0 + number for number in range(0, 22, 2)]
    worn = [51.5 + number for number in range(0, 20, 2)]
    found = differences(worn, plain, [number % 5 == 0 for number in range(10)])
    assert found == Differences((0.5,) * 8, (0.5,) * 2)


def test_checkpoints_count_as_often_as_they_are_and_outliers_hardly() -> None:
    found = Differences(ordinary=(0.2, 0.3, 40.0), saving=(3.3,))
    assert found.per_step(0.1) == pytest.approx(0.3 + 0.1 * 3.0)
    low, high = found.interval(0.1)
    assert low < found.per_step(0.1) < high


class Worn:
    """Each method takes that many seconds of a clock of its own."""

    now = 0.0

    def step(self) -> None:
        Worn.now += 1.0
        self.inner()
        self.other()

    def inner(self) -> None:
        Worn.now += 10.0

    def other(self) -> None:
        Worn.now += 100.0


def test_calls_inside_each_other_count_once_and_the_loop_s_own_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("step", "inner", "other", "now"):
        monkeypatch.setattr(Worn, name, vars(Worn)[name])  # taken back at the end
    own = OwnTime(lambda: Worn.now)
    own.watch(Worn, ("step", "inner"))
    own.leave_out(Worn, ("other",))
    Worn().step()
    assert own.seconds == 11.0
    Worn().other()
    assert own.seconds == 11.0
