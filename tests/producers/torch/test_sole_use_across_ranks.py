"""The ways to use Holter wrongly, under DDP and FSDP2 on two ranks: the same lines as on one, and no rank waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from holter import producers
from holter.producers import Run
from holter.producers.torch import Guard
from holter.producers.torch.sole_use import GUARDED, OUTSIDE
from tests.producers.torch.several_ranks import data_parallel, fully_sharded, run_ranks
from tests.producers.torch.test_sole_use import Loop, WithoutForeach, Wrapper

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]
WRAPS = {"ddp": data_parallel, "fsdp2": fully_sharded}
NO_LOSS = "step() was called without a loss since the last one"


class RankLoop(Loop):
    def new_run(self) -> Run:
        self._num_runs += 1
        return producers.init("tests", f"run-{self._num_runs}", mode="disabled")  # the rank is in the environment


def two_guards(loop: Loop) -> int:
    guard, other = loop.guard(), loop.guard()
    for each in (guard, other, guard):
        each.backward(loop.loss())
        each.step()
    return guard.last_step + other.last_step


def two_guards_of_a_run(loop: Loop) -> int:
    run = loop.new_run()
    for _ in range(2):
        guard = Guard(run, loop.model, loop.optimizer, checkpoints=None)
    return guard.last_step


def hooks_on_a_guarded_optimizer(loop: Loop) -> int:
    loop.guard()
    return loop.hooks().last_step


def guarded(loop: Loop, step: Callable[[Guard], None]) -> int:
    guard = loop.guard()
    for _ in range(3):
        guard.backward(loop.loss())
        step(guard)
    return guard.last_step


def well_used(loop: Loop) -> int:
    return guarded(loop, Guard.step)


def own_step_beside(loop: Loop) -> int:
    return guarded(loop, lambda guard: (loop.optimizer.step(), guard.step())[1])


def step_twice(loop: Loop) -> int:
    return guarded(loop, lambda guard: (guard.step(), guard.step())[1])


def hooked_step_twice(loop: Loop) -> int:
    hooks = loop.hooks()
    for _ in range(3):
        loss = loop.loss()
        hooks.add_loss(loss)
        loss.backward()
        loop.optimizer.step()
        loop.optimizer.step()
    return hooks.last_step


OF_A_RUN = "run 'run-1' is guarded already: one Guard, Hooks or integration for each run"
USES: dict[str, tuple[Callable[[Loop], int], Callable[[Any], Any], list[str] | str]] = {
    "two_guards": (two_guards, torch.optim.AdamW, [GUARDED]),
    "two_guards_of_a_run": (two_guards_of_a_run, torch.optim.AdamW, OF_A_RUN),
    "hooks_on_guarded": (hooks_on_a_guarded_optimizer, torch.optim.AdamW, GUARDED),
    "own_step_beside": (own_step_beside, torch.optim.AdamW, [OUTSIDE]),
    "step_twice": (step_twice, torch.optim.AdamW, [NO_LOSS]),
    "hooked_step_twice": (hooked_step_twice, torch.optim.AdamW, [NO_LOSS]),
    "wrapped": (well_used, lambda weights: Wrapper(torch.optim.SGD(weights, lr=0.1)), []),
    "without_foreach": (well_used, WithoutForeach, []),
    "closure": (well_used, torch.optim.LBFGS, "LBFGS.step() needs a closure: keep it in the loop and use Hooks"),
}
"""What is done, with which optimizer, and what is said: warnings of a training that goes on, or the error."""
NUM_STEPS = {"two_guards": 3, "step_twice": 6, "hooked_step_twice": 6, "own_step_beside": 3}


@contextmanager
def warnings() -> Iterator[list[str]]:
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("holter")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def misuse(rank: int, num_ranks: int, folder: Path, wrap: str) -> dict[str, tuple[list[str] | str, int]]:
    """All of them one after the other: what a use leaves behind must not stand in the way of the next."""
    found: dict[str, tuple[list[str] | str, int]] = {}
    for name, (use, make, _) in USES.items():
        with warnings() as said:
            try:
                found[name] = (said, use(RankLoop(folder, make, WRAPS[wrap])))
            except ValueError as error:
                found[name] = (str(error), 0)
    return found


@pytest.mark.parametrize("wrap", WRAPS)
def test_each_is_told_in_one_line_on_every_rank(tmp_path: Path, wrap: str) -> None:
    for by_use in run_ranks(misuse, 2, tmp_path, wrap):
        assert {name: said for name, (said, _) in by_use.items()} == {name: line for name, (*_, line) in USES.items()}
        assert {name: by_use[name][1] for name in NUM_STEPS} == NUM_STEPS
