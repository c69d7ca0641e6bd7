"""Under the guard: checkpoints, resuming, a scheduler and skipped steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.producers.torch.loops import Training
from tests.producers.torch.optim.tapes import NAMES, made
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch


def training(folder: Path, name: str, watch: FakeWatch | None = None, **settings: Any) -> Training:
    def make_optimizer(weights: Any, lr: float) -> torch.optim.Optimizer:
        return made(name, weights, lr=lr)

    return Training(folder, watch, optimizer=make_optimizer, checkpoint_every=10, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_process_goes_on_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    whole = training(tmp_path / "whole", name)
    whole.steps(16)
    first = training(tmp_path, name, FakeWatch())
    first.steps(12)
    first.run.finish()
    second = training(tmp_path, name, resume=True)
    assert second.guard.last_step == 10
    second.steps(6)
    assert second.losses == {step: whole.losses[step] for step in range(11, 17)}


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_loss_leaves_the_weights_alone(name: str, tmp_path: Path) -> None:
    run = training(tmp_path, name)
    run.steps(3)
    before = run.weights()
    spoil = run.model.register_forward_hook(lambda module, inputs, output: output * torch.nan)
    run.steps(1)
    spoil.remove()
    assert all(torch.equal(one, other) for one, other in zip(before, run.weights(), strict=True))
    run.steps(2)
    assert all(weight.isfinite().all() for weight in run.weights())
