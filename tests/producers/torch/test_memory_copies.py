"""The memory tier: what it keeps within its budget, and that its copies stay what they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from holter.producers.torch.checkpoint_files import DamagedCheckpoint
from holter.producers.torch.memory_copies import MemoryCopies

pytestmark = pytest.mark.torch
SIZE = 400


def state(value: float) -> dict[str, Any]:
    return {"model": {"w": torch.full((100,), value)}, "lr": 0.1}


def filled(memory: MemoryCopies, *steps: int) -> list[list[str] | None]:
    return [memory.take(f"s{step}", 1, step, state(float(step)), 0) for step in steps]


def kept(memory: MemoryCopies, *steps: int) -> list[int]:
    return [step for step in steps if memory.find(f"s{step}") is not None]


def test_the_newest_and_the_healthy_one_stay() -> None:
    memory = MemoryCopies(10, 4 * SIZE)
    filled(memory, 10, 20)
    memory.heal("s10")
    assert filled(memory, 30, 40, 50, 60) == [[], [], ["s20"], ["s30"]]
    assert kept(memory, 10, 20, 30, 40, 50, 60) == [10, 40, 50, 60]
    memory.heal("s40")
    assert filled(memory, 70) == [["s10"]]
    assert memory.pinned is not None
    assert memory.pinned.step == 40


@pytest.mark.parametrize(("copies", "spacing"), [(1, 0), (2, 30), (3, 20), (4, 10), (9, 10)])
def test_a_small_budget_keeps_fewer_that_lie_further_apart(copies: int, spacing: int) -> None:
    memory = MemoryCopies(10, copies * SIZE)
    assert memory.is_due(10)
    filled(memory, 10)
    assert memory.spacing_steps == spacing
    assert memory.num_lacking == 4 - min(copies, 4)


def test_a_budget_for_less_than_two_keeps_none() -> None:
    memory = MemoryCopies(10, 2 * SIZE - 1)
    assert filled(memory, 10) == [None]
    assert not memory.is_due(20)
    assert kept(memory, 10) == []


def test_the_rank_with_the_least_room_counts() -> None:
    memory = MemoryCopies(10, 4 * SIZE)
    memory.hear(3)
    filled(memory, 10)
    memory.hear(2)
    filled(memory, 40, 70)
    assert kept(memory, 10, 40, 70) == [40, 70]


def test_a_copy_is_neither_the_live_state_nor_what_was_read_of_it() -> None:
    memory = MemoryCopies(10, 4 * SIZE)
    live = state(1.0)
    memory.take("a", 1, 10, live, 0)
    live["model"]["w"].fill_(9.0)
    memory.read("a")["model"]["w"].fill_(7.0)
    assert torch.equal(memory.read("a")["model"]["w"], torch.ones(100))


def test_buffers_that_are_used_again_do_not_reach_into_other_copies() -> None:
    memory = MemoryCopies(10, 2 * SIZE)
    filled(memory, 10, 40, 70, 100)
    for step in (70, 100):
        assert float(memory.read(f"s{step}")["model"]["w"][0]) == step


def test_going_back_forgets_later_copies() -> None:
    memory = MemoryCopies(10, 4 * SIZE)
    filled(memory, 10, 20, 30)
    memory.rewind(20)
    assert kept(memory, 10, 20, 30) == [10, 20]


def test_one_that_is_not_finite_is_damaged_and_gone() -> None:
    memory = MemoryCopies(10, 4 * SIZE)
    memory.take("bad", 1, 10, state(float("nan")), 0)
    with pytest.raises(DamagedCheckpoint, match="non-finite value in w"):
        memory.read("bad")
    assert memory.find("bad") is None
