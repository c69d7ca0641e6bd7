"""A loss scale does not pay for gradients that overflow without it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from holter.producers.torch.loss_scale import LossScaleFloor  # noqa: E402
from holter.schemas.bounds import EffectName  # noqa: E402
from tests.producers.torch.loops import Training  # noqa: E402

pytestmark = pytest.mark.torch


class Scaled:
    """One weight under a scaler; steps whose gradient is finite or not."""

    def __init__(self, init_scale: float, growth_interval: int = 2000) -> None:
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.0)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=growth_interval)
        self.floor = LossScaleFloor(self.scaler)

    def scales(self, gradients: list[float]) -> list[float]:
        """After each step."""
        return [self._step(gradient) for gradient in gradients]

    def _step(self, gradient: float) -> float:
        self.scaler.scale(self.weight.sum())
        self.weight.grad = torch.full((1,), gradient)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.floor.settle()
        return float(self.scaler.get_scale())


def test_the_scale_stops_at_one_and_comes_back_with_the_first_finite_gradient() -> None:
    scaled = Scaled(8.0)
    assert scaled.scales([1.0, *[math.inf] * 6, 1.0, 1.0]) == [8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 8.0, 8.0]


def test_a_scale_that_was_too_high_stays_where_the_scaler_put_it() -> None:
    assert Scaled(64.0).scales([1.0, math.inf, math.nan, 1.0, 1.0]) == [64.0, 32.0, 16.0, 16.0, 16.0]


def test_growth_is_the_scalers_own() -> None:
    assert Scaled(4.0, growth_interval=2).scales([1.0] * 4) == [4.0, 8.0, 8.0, 16.0]


def test_one_that_began_below_one_falls_no_further() -> None:
    assert Scaled(0.5).scales([1.0, math.inf, math.inf, 1.0]) == [0.5, 0.5, 0.5, 0.5]


def test_a_restored_scale_is_no_fall() -> None:
    scaled = Scaled(8.0)
    scaled.scales([1.0, *[math.inf] * 4])
    scaled.scaler.load_state_dict({**scaled.scaler.state_dict(), "scale": 2.0})
    scaled.floor.restart()
    assert scaled.scales([1.0, 1.0]) == [2.0, 2.0]


@pytest.mark.parametrize(("allow", "scale"), [(("nan_guard",), 1.0), ((), 0.25)])
def test_a_guard_without_leave_lets_it_fall(tmp_path: Path, allow: tuple[EffectName, ...], scale: float) -> None:
    scaler: Any = torch.amp.GradScaler("cpu", init_scale=4.0)
    training = Training(tmp_path, scaler=scaler, allow=allow)
    training.steps(1)
    inputs, targets = next(training._batches)
    for _ in range(4):
        training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs * math.inf), targets))
        training.guard.step()
    assert scaler.get_scale() == scale
    training.run.finish()
