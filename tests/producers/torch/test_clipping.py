"""Every clipper under the guard; an action may clip tighter for a while, never looser than the user configured."""

from __future__ import annotations

import copy
import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from holter.producers.torch.clip import CLIPPERS, Clipper, make
from holter.schemas.control import ClipAdjust, MomentumReset, Rollback
from holter.schemas.telemetry import Started
from tests.producers.torch.clip.gradients import tensors_of
from tests.producers.torch.loops import Training, make_loader, make_model
from tests.producers.torch.test_guard import Counting
from tests.producers.torch.test_rollback import checkpoint_at, latch
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch
CLIP = 0.01
"""So tight that every step is clipped."""
OPTIONS: dict[str, dict[str, Any]] = {
    "globalgc": {"max_norm": CLIP},
    "agc": {"ratio": 0.01},
    "adagc": {"warmup_steps": 3, "max_norm": CLIP},
    "zclip": {"warmup_steps": 3, "max_norm": None, "max_score": 0.5},
    "ema_mad": {"min_samples": 3, "window": 8, "alpha": 0.5, "beta": 0.0},
    "olmo": {"ratio": 0.7},
    "autoclip": {"percentile": 25.0, "window": 8},
}
"""Under which every one clips within a few steps."""
every_clipper = pytest.mark.parametrize("name", CLIPPERS)


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors_of(one), tensors_of(other), strict=True))


def clipped_by_hand(clipper: Clipper, num_steps: int) -> list[torch.Tensor]:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    batches = iter(make_loader(50))
    for _ in range(num_steps):
        inputs, targets = next(batches)
        torch.nn.functional.mse_loss(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
        clipper.clip(list(model.parameters()))
        optimizer.step()
        clipper.commit()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
    return [parameter.detach() for parameter in model.parameters()]


@functools.cache
def unclipped() -> list[torch.Tensor]:
    return clipped_by_hand(make("globalgc", max_norm=1e9), 12)


@every_clipper
def test_a_guarded_clipper_is_the_clipper(tmp_path: Path, name: str) -> None:
    expected = clipped_by_hand(make(name, **OPTIONS[name]), 12)
    training = Training(tmp_path, FakeWatch(), loader=make_loader(50), clip=make(name, **OPTIONS[name]))
    training.steps(12)
    training.run.finish()
    assert all(torch.equal(one, other) for one, other in zip(training.weights(), expected, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(expected, unclipped(), strict=True))


@every_clipper
def test_a_clipper_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path, name: str) -> None:
    whole = Training(tmp_path / "whole", clip=make(name, **OPTIONS[name]), checkpoint_every=100)
    whole.steps(9)
    first = Training(tmp_path, FakeWatch(), clip=make(name, **OPTIONS[name]))
    first.steps(6)
    first.run.finish()
    clip = make(name, **OPTIONS[name])
    second = Training(tmp_path, resume=True, clip=clip, checkpoint_every=100)
    assert second.guard.last_step == 5
    second.steps(4)
    assert second.losses == {step: whole.losses[step] for step in range(6, 10)}
    assert same(clip.state_dict(), whole.guard._clip.state_dict())  # type: ignore[union-attr]


def test_another_clipper_starts_anew_on_a_resume(tmp_path: Path) -> None:
    first = Training(tmp_path, FakeWatch(), clip=make("zclip"))
    first.steps(6)
    first.run.finish()
    second = Training(tmp_path, resume=True, clip=make("olmo"))
    second.steps(2)
    assert second.guard.last_step == 7


@every_clipper
def test_a_non_finite_gradient_changes_neither_weights_nor_the_clipper(tmp_path: Path, name: str) -> None:
    clip = make(name, **OPTIONS[name])
    training = Training(tmp_path, FakeWatch(), clip=clip)
    training.steps(6)
    weights, state = training.weights(), copy.deepcopy(clip.state_dict())
    spoil = training.model.register_forward_hook(lambda module, inputs, output: output * math.nan)
    training.steps(1)
    spoil.remove()
    assert training.guard.num_skipped == 1
    assert same(state, clip.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(weights, training.weights(), strict=True))
    training.run.finish()


@every_clipper
def test_a_clipped_step_measures_the_norm_once_and_waits_for_nothing(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = {"optimizer": torch.optim.SGD, "scheduled": False, "update_norm": "none"}
    training = Training(tmp_path, FakeWatch(), clip=make(name, **OPTIONS[name]), **settings)
    training.steps(4)
    inputs, targets = next(training._batches)
    training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs), targets))
    with Counting() as counting:
        training.guard.step()
    training.run.finish()
    assert counting.counts["aten._local_scalar_dense.default"] == 0
    assert counting.counts["aten._foreach_norm.Scalar"] == (0 if name == "agc" else 1)


@every_clipper
def test_an_action_tightens_every_clipper(tmp_path: Path, name: str) -> None:
    watch, clip = FakeWatch(), make(name, **OPTIONS[name])
    training = Training(tmp_path, watch, clip=clip)
    training.steps(4)
    watch.act([ClipAdjust(0.2, ramp_steps=4)])
    latch(training)
    factors = [clip.factor for _ in range(7) if training.step()]
    training.run.finish()
    assert factors == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 1.0])
    (ack,) = watch.acks()
    assert (ack.status, ack.effects[0].before, ack.effects[0].after) == ("applied", 1.0, 0.2)


class Clipped(Training):
    """Records the gradient norm that every step was taken with."""

    def __init__(self, folder: Path, watch: FakeWatch, **settings: object) -> None:
        super().__init__(folder, watch, **{"clip": CLIP, **settings})
        self.norms: list[float] = []
        self.optimizer.register_step_pre_hook(self._record)

    def _record(self, *_: object) -> None:
        gradients = [weight.grad.flatten() for weight in self.model.parameters() if weight.grad is not None]
        self.norms.append(float(torch.cat(gradients).norm()))


def test_the_live_threshold_is_lowered_and_climbs_back(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Clipped(tmp_path, watch)
    training.steps(2)
    watch.act([ClipAdjust(0.2, ramp_steps=4)])
    latch(training)
    training.steps(7)
    training.run.finish()
    expected = [CLIP] * 3 + [factor * CLIP for factor in (0.2, 0.4, 0.6, 0.8)] + [CLIP] * 2
    assert training.norms == pytest.approx(expected, rel=1e-3)
    (ack,) = watch.acks()
    (report,) = ack.effects
    assert (report.effect, report.before, report.after) == ("clip_adjust", 1.0, 0.2)
    assert watch.values("train/grad_norm")[5] > CLIP  # what is published is the norm before clipping


def test_without_a_ramp_it_stays_and_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Clipped(tmp_path, watch)
    training.steps(2)
    watch.act([ClipAdjust(0.5)])
    latch(training)
    training.steps(4)
    checkpoint_at(watch, 5)
    training.run.finish()
    later = Clipped(tmp_path, FakeWatch(), resume=True)
    later.steps(2)
    later.run.finish()
    assert later.norms == pytest.approx([CLIP / 2] * 2, rel=1e-3)


def test_going_back_before_it_takes_it_back(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Clipped(tmp_path, watch)
    training.steps(6)
    watch.act([ClipAdjust(0.5)])
    latch(training)
    training.steps(2)
    watch.act([Rollback(checkpoint_at(watch, 5), 5)])
    latch(training)
    training.steps(3)
    training.run.finish()
    assert training.norms[-4:] == pytest.approx([CLIP / 2] * 2 + [CLIP] * 2, rel=1e-3)


def test_a_factor_that_is_too_small_is_refused(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Clipped(tmp_path, watch)
    training.steps(2)
    watch.act([ClipAdjust(0.01), MomentumReset()])
    latch(training)
    training.steps(2)
    training.run.finish()
    (ack,) = watch.acks()
    assert (ack.status, "below 0.1" in ack.reason) == ("refused", True)
    assert training.norms == pytest.approx([CLIP] * 4, rel=1e-3)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_it_is_possible_only_where_the_guard_clips(tmp_path: Path, clip: float | None) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, clip=clip)
    training.steps(1)
    training.run.finish()
    start = watch.events(Started)[0].event
    assert isinstance(start, Started)
    assert ("clip_adjust" in start.effects) == (clip is not None)
