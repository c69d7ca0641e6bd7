"""A factor stays on the rate whatever schedule runs over it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim import lr_scheduler as schedulers

from holter.producers.torch.learning_rate import LearningRateFactor

pytestmark = pytest.mark.torch
Optimizer = torch.optim.Optimizer

SCHEDULES: dict[str, Callable[[Optimizer], Any]] = {
    "none": lambda _: None,
    "step": lambda optimizer: schedulers.StepLR(optimizer, 4, 0.5),
    "lambda": lambda optimizer: schedulers.LambdaLR(optimizer, lambda step: 1 / (step + 1)),
    "linear": lambda optimizer: schedulers.LinearLR(optimizer, 0.1, total_iters=10),
    "cosine": lambda optimizer: schedulers.CosineAnnealingLR(optimizer, 15, eta_min=0.001),
    "warm restarts": lambda optimizer: schedulers.CosineAnnealingWarmRestarts(optimizer, 5, eta_min=0.001),
    "polynomial": lambda optimizer: schedulers.PolynomialLR(optimizer, 15),
    "one cycle": lambda optimizer: schedulers.OneCycleLR(optimizer, max_lr=0.2, total_steps=25),
    "cyclic": lambda optimizer: schedulers.CyclicLR(optimizer, 0.01, 0.1, step_size_up=4),
    "chained": lambda optimizer: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(optimizer, 0.5, 3), schedulers.ExponentialLR(optimizer, 0.9)]
    ),
    "sequential": lambda optimizer: schedulers.SequentialLR(
        optimizer,
        [schedulers.LinearLR(optimizer, 0.1, total_iters=5), schedulers.CosineAnnealingLR(optimizer, 10)],
        milestones=[8],
    ),
}


def make(schedule: str, tensor: bool = False) -> tuple[Optimizer, Any]:
    groups = [{"params": [torch.nn.Parameter(torch.ones(2))], "lr": torch.tensor(rate) if tensor else rate}
              for rate in (0.1, 0.02)]  # fmt: skip
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    return optimizer, SCHEDULES[schedule](optimizer)


def rates(optimizer: Optimizer, scheduler: Any, num_steps: int) -> list[float]:
    found: list[float] = []
    for _ in range(num_steps):
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        found += [float(group["lr"]) for group in optimizer.param_groups]
    return found


def advance(factor: LearningRateFactor, optimizer: Optimizer, scheduler: Any) -> list[float]:
    """One step as a guard takes it."""
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    factor.advance()
    return [float(group["lr"]) for group in optimizer.param_groups]


@settings(max_examples=30, deadline=None)
@given(
    schedule=st.sampled_from(sorted(SCHEDULES)),
    tensor=st.booleans(),
    at=st.integers(0, 9),
    value=st.floats(0.1, 1.0),
    ramp_steps=st.integers(0, 8),
    saved_at=st.integers(0, 9),
)
def test_every_later_rate_is_the_factor_times_the_configured_one(
    schedule: str, tensor: bool, at: int, value: float, ramp_steps: int, saved_at: int
) -> None:
    """Also over a ramp, and where another process takes it up in the middle of it."""
    plain, hurt = make(schedule, tensor), make(schedule, tensor)
    factor = LearningRateFactor(*hurt)
    rates(*plain, at)
    for _ in range(at):
        advance(factor, *hurt)
    factor.set(value, ramp_steps)
    for number in range(1, 12):
        if number == saved_at:
            factor, hurt = taken_up(factor, hurt, schedule, tensor)
        climbed = number / ramp_steps if number < ramp_steps else float(ramp_steps > 0)
        expected = [(value + (1 - value) * climbed) * rate for rate in rates(*plain, 1)]
        assert advance(factor, *hurt) == pytest.approx(expected, rel=2e-5 if tensor else 1e-9)


def taken_up(
    factor: LearningRateFactor, hurt: tuple[Optimizer, Any], schedule: str, tensor: bool
) -> tuple[LearningRateFactor, tuple[Optimizer, Any]]:
    """By a new process, from a checkpoint."""
    fresh = make(schedule, tensor)
    fresh[0].load_state_dict(copy.deepcopy(hurt[0].state_dict()))
    if hurt[1] is not None:
        fresh[1].load_state_dict(copy.deepcopy(hurt[1].state_dict()))
    later = LearningRateFactor(*fresh)
    later.load(factor.state())
    return later, fresh


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_factor_can_be_changed_and_taken_back(schedule: str) -> None:
    plain, scaled = make(schedule), make(schedule)
    factor = LearningRateFactor(*scaled)
    for value in (0.5, 0.1, 1.0):
        factor.set(value)
        rates(*scaled, 2)
    rates(*plain, 6)
    assert rates(*scaled, 5) == pytest.approx(rates(*plain, 5), rel=1e-6)


def test_rates_that_are_tensors_stay_the_same_tensors() -> None:
    optimizer, scheduler = make("none", tensor=True)
    rate = optimizer.param_groups[0]["lr"]
    LearningRateFactor(optimizer, scheduler).set(0.5)
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == pytest.approx(0.05)


@pytest.mark.parametrize("factor", [0.05, 1.1, float("nan")])
def test_the_factor_is_bounded(factor: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        LearningRateFactor(*make("none")).set(factor)
