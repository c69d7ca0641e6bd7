from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.core.signals import SignalStage
from holter.pipeline.core.stats.loss_collapse import Curve, curve_of, depart
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import LOSS


def shape(share: float) -> float:
    """Of a power law and a schedule that falls to zero."""
    return 1.0 + 0.6 * (1.0 - share) + 1.5 * (share + 0.02) ** -0.3 - 1.5 * 1.02**-0.3


def run_of(num_steps: int, size: float, ramp: float = 0.0, noise: float = 0.0, seed: int = 0) -> list[float]:
    """``ramp``: a slow fault from .6 of the run on, as a share of the loss at its end."""
    draw = random.Random(seed)
    shares = [step / num_steps for step in range(1, num_steps + 1)]
    return [size * (shape(at) + ramp * max(0.0, at - 0.6) / 0.4) * (1.0 + draw.gauss(0.0, noise)) for at in shares]


def curve(losses: list[float], num_steps: int | None = None, smoothed: int = 0) -> Curve:
    return curve_of(range(1, len(losses) + 1), losses, num_steps or len(losses), smoothed)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 10.0), st.integers(60, 2000))
def test_a_run_of_another_size_and_length_falls_onto_its_reference(size: float, num_steps: int) -> None:
    found = depart(curve(run_of(num_steps, size)), curve(run_of(500, 2.0)))
    assert found.onset is None
    assert found.final_loss == pytest.approx(size, rel=2e-3)
    assert max(abs(residual) for _, residual in found.residuals) < 5e-3


def test_a_slow_fault_is_found_long_before_it_shows_in_the_loss() -> None:
    """A ramp to 10 % from .6 on is known before .7, and until then no detector of single runs says anything."""
    losses = run_of(4000, 2.3, ramp=0.1, noise=0.01)
    reference = curve(run_of(2000, 3.0, noise=0.01, seed=1), smoothed=100)
    found = depart(curve(losses[:2850], 4000, smoothed=200), reference)
    assert found.onset is not None
    assert 0.6 < found.onset < 0.7
    stage = SignalStage("p", "r")
    told = [
        signal
        for step, loss in enumerate(losses[:2850], 1)
        for signal in stage.update(StepRecord(0, 0, step, step, step, True, True, {LOSS: loss}), step)
    ]
    assert told == []


def test_a_run_without_a_fault_never_leaves_its_reference() -> None:
    reference = curve(run_of(2000, 3.0, noise=0.01, seed=1), smoothed=100)
    for seed in range(2, 7):
        assert depart(curve(run_of(4000, 2.3, noise=0.01, seed=seed), smoothed=200), reference).onset is None


def test_one_high_loss_is_no_departure() -> None:
    losses = run_of(400, 2.0)
    losses[300] *= 1.5
    assert depart(curve(losses), curve(run_of(400, 2.0))).onset is None


@pytest.mark.parametrize("num_done", [0, 3, 199])
def test_half_of_the_run_is_needed(num_done: int) -> None:
    with pytest.raises(ValueError, match="half done"):
        depart(curve(run_of(400, 2.0)[:num_done], 400), curve(run_of(400, 2.0)))


def test_losses_that_are_not_finite_are_left_out() -> None:
    found = curve_of([1, 2, 3], [2.0, math.nan, 1.0], 4)
    assert found == Curve([0.25, 0.75], [2.0, 1.0])
    assert found.at(0.5) == 1.5
    assert math.isnan(found.at(0.8))
