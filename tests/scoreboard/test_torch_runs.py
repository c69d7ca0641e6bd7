"""Runs trained on the spot."""

from __future__ import annotations

import functools
import math

import pytest

from holter.schemas.telemetry import GRAD_NORM, LOSS

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

from tests.scoreboard.corpus.torch_runs import HEALTHY, TorchFault, labels_of, train  # noqa: E402

STEPS = 7


@functools.cache
def calm_run() -> dict[str, list[float]]:
    return train(HEALTHY, STEPS, seed=1)


def test_a_run_is_real_and_the_same_each_time() -> None:
    once = calm_run()
    assert once == train(HEALTHY, STEPS, seed=1)
    assert once[LOSS][0] == pytest.approx(math.log(64), abs=0.6)
    assert min(once[GRAD_NORM]) > 0.0


def test_faults_hurt_from_their_step_on() -> None:
    calm = calm_run()
    fault = TorchFault("gradient", "grad_explosion", step=4, num_steps=1, grad_times=1_000.0)
    hurt = train(fault, STEPS, seed=1)
    assert hurt[LOSS][:5] == calm[LOSS][:5]
    assert hurt[GRAD_NORM][4] == pytest.approx(1_000.0 * calm[GRAD_NORM][4], rel=1e-3)
    nan = train(TorchFault("nan", "nan", step=3, num_steps=99, loss_is_nan=True), STEPS, seed=1)
    assert all(map(math.isnan, nan[LOSS][3:]))


def test_labels_end_where_the_level_is_back() -> None:
    fault = TorchFault("burst", "loss_spike", step=60, num_steps=5)
    losses = [2.0] * 60 + [4.0] * 30 + [2.0] * 60
    (label,) = labels_of(fault, losses)
    assert (label.first_row, label.recovered) == (60, True)
    assert 88 <= label.last_row <= 94


def test_a_run_that_does_not_come_back_is_lost() -> None:
    fault = TorchFault("nan", "nan", step=60, num_steps=10_000)
    (label,) = labels_of(fault, [2.0] * 60 + [math.nan] * 60)
    assert (label.last_row, label.recovered) == (119, False)
    assert labels_of(HEALTHY, [2.0] * 60) == []
