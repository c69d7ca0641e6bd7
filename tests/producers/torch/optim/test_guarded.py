"""Under the guard: checkpoints, resuming, a scheduler and skipped steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from holter.schemas.control import MomentumReset
from tests.producers.torch.loops import Training, make_loader
from tests.producers.torch.optim.tapes import NAMES, made
from tests.producers.torch.test_rollback import latch
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch


def training(folder: Path, name: str, watch: FakeWatch | None = None, **settings: Any) -> Training:
    def make_optimizer(weights: Any, lr: float) -> torch.optim.Optimizer:
        return made(name, weights, lr=lr)

    settings = {"checkpoint_every": 10, **settings}
    return Training(folder, watch, optimizer=make_optimizer, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_process_goes_on_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    whole = training(tmp_path / "whole", name)
    whole.steps(9)
    first = training(tmp_path, name, FakeWatch(), checkpoint_every=5)
    first.steps(6)
    first.run.finish()
    second = training(tmp_path, name, resume=True)
    assert second.guard.last_step == 5
    second.steps(4)
    assert second.losses == {step: whole.losses[step] for step in range(6, 10)}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "clippy_adagrad"])
def test_an_action_resets_the_moments(name: str, tmp_path: Path) -> None:
    watch = FakeWatch()
    run = training(tmp_path, name, watch)
    run.steps(3)
    watch.act([MomentumReset(worst_groups=1)])
    latch(run)
    run.steps(1)
    moments = [value for state in run.optimizer.state.values() for key, value in state.items() if key == "exp_avg"]
    assert moments
    assert all(bool((moment == 0).all()) for moment in moments)
    run.steps(1)
    run.run.finish()
    (ack,) = watch.acks()
    assert (ack.status, [report.effect for report in ack.effects]) == ("applied", ["momentum_reset"])


def test_the_guard_tells_skip_step_what_it_judges_and_publishes_what_it_left_out(tmp_path: Path) -> None:
    watch = FakeWatch()
    run = training(tmp_path, "skip_step", watch, clip=0.01, loader=make_loader(60))
    run.steps(30)
    before = run.weights()
    hooks = [weight.register_hook(lambda gradient: gradient * 1e3) for weight in run.model.parameters()]
    run.steps(1)  # clipped to the same norm as every other step: only the norm before it tells
    for hook in hooks:
        hook.remove()
    assert all(torch.equal(one, other) for one, other in zip(before, run.weights(), strict=True))
    run.steps(1)
    run.run.finish()
    assert 31 in watch.not_applied()
    assert run.guard.num_skipped == len(watch.not_applied())
    assert watch.values("train/update_norm")[31] == 0.0


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
