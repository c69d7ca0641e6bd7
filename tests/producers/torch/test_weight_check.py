"""After a gradient that is not finite it is known whether the weights are to blame."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.producers.torch.loops import Training  # noqa: E402
from tests.producers.watch import FakeWatch  # noqa: E402

pytestmark = pytest.mark.torch


def norms(watch: FakeWatch) -> dict[int, float]:
    return watch.values("train/weight_norm")


def hurt(training: Training) -> None:
    """A step on data that are not numbers."""
    inputs, targets = next(training._batches)
    training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs * math.nan), targets))
    training.guard.step()


def test_data_that_is_not_finite_leaves_the_weights_norm_finite(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(2)
    hurt(training)
    training.steps(3)
    training.run.finish()
    whole = math.sqrt(sum(float(weight.square().sum()) for weight in training.weights()))
    assert list(norms(watch)) == [4]
    assert norms(watch)[4] == pytest.approx(whole, rel=0.05)


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1.7e37])
def test_broken_weights_are_told_at_every_step_after_the_first(tmp_path: Path, broken: float) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(2)
    with torch.no_grad():
        training.model[0].weight[3, 2] = broken
        training.model[3].weight.fill_(broken)
    training.steps(3)
    training.run.finish()
    assert list(norms(watch)) == [4, 5]
    assert not any(map(math.isfinite, norms(watch).values()))
