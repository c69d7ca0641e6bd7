"""On a CUDA device: no synchronisation in a step, values that arrive later, and the same ways back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from holter.producers.torch import Guard, SkipExplosions
from holter.producers.torch.clip import CLIPPERS, make
from holter.schemas.control import LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.telemetry import BadGradient
from tests.producers.torch.loops import ALL, make_run
from tests.producers.watch import FakeWatch, await_

pytestmark = [
    pytest.mark.torch,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=0.01),
    "fused": lambda weights: torch.optim.AdamW(weights, lr=0.01, fused=True),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.9),
}


class Loop:
    def __init__(self, folder: Path, watch: FakeWatch, optimizer: str, **settings: Any) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(16, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)).cuda()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.run = make_run(watch)
        settings = {"allow": ALL, "checkpoint_every": 5, **settings}
        self.guard = Guard(self.run, self.model, self.optimizer, checkpoints=folder, **settings)
        inputs = torch.randn(50, 32, 16, device="cuda")
        self.batches: Iterator[torch.Tensor] = self.guard.batches(list(inputs), until=1000)

    def steps(self, number: int, scale: float = 1.0) -> None:
        for _ in range(number):
            inputs = next(self.batches)
            self.guard.backward((self.model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean() * scale)
            self.guard.step()

    def weights(self) -> list[torch.Tensor]:
        return [weight.detach().clone() for weight in self.model.parameters()]


@pytest.mark.parametrize("clip", [None, 1.0, *CLIPPERS])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_never_waits_for_the_device(tmp_path: Path, optimizer: str, clip: float | str | None) -> None:
    watch = FakeWatch()
    clipper = make(clip) if isinstance(clip, str) else clip
    loop = Loop(tmp_path, watch, optimizer, clip=clipper, reflex=SkipExplosions())
    loop.steps(12)  # first checkpoints pin their memory, which synchronises once
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop.steps(20)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    loop.run.finish()
    assert sorted(watch.values("train/loss")) == list(range(1, 33))
    assert all(math.isfinite(value) for value in watch.values("train/grad_norm").values())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_explosion_changes_nothing(tmp_path: Path, optimizer: str) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch, optimizer, reflex=SkipExplosions())
    loop.steps(40)
    before = loop.weights()
    loop.steps(1, scale=1e4)
    assert all(torch.equal(a, b) for a, b in zip(before, loop.weights(), strict=True))
    loop.steps(3)
    loop.run.finish()
    assert [each.step for each in watch.events(BadGradient)] == [41]
    assert loop.guard.num_skipped == 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_non_finite_gradient_changes_nothing(tmp_path: Path, optimizer: str) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch, optimizer)
    loop.steps(3)
    before = loop.weights()
    loop.steps(1, scale=math.nan)
    assert all(torch.equal(a, b) for a, b in zip(before, loop.weights(), strict=True))
    loop.steps(2)
    loop.run.finish()
    assert loop.guard.num_skipped == 1
    assert watch.values("train/update_norm")[4] == 0.0
    assert all(weight.isfinite().all() for weight in loop.weights())


def test_a_rollback_restores_the_device(tmp_path: Path) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch, "adamw")
    loop.steps(5)
    at_five = loop.weights()
    loop.steps(3)
    saver = loop.guard._recovery._saver
    assert saver is not None
    saver.wait()
    (manifest,) = [each for each in saver._files.manifests() if each.step == 5]
    watch.act([Rollback(manifest.name, 5), SkipRange(6), MomentumReset(), LrFactor(0.5)])
    control = loop.run.control
    assert control is not None
    await_(lambda: control.is_pending and control.is_armed, "latched")
    loop.steps(1)
    assert loop.guard.last_step == 5
    assert all(torch.equal(a, b) for a, b in zip(at_five, loop.weights(), strict=True))
    loop.steps(5)
    loop.run.finish()
    assert watch.acks()[0].status == "applied"
