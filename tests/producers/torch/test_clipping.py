"""An action may clip tighter for a while, never looser than the user configured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holter.producers.torch.clipping import ClipThreshold
from holter.schemas.control import ClipAdjust, MomentumReset, Rollback
from holter.schemas.telemetry import Started
from tests.producers.torch.loops import Training
from tests.producers.torch.test_rollback import checkpoint_at, latch
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch
CLIP = 0.01
"""So tight that every step is clipped."""


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
    assert (report.effect, report.before, report.after) == ("clip_adjust", CLIP, pytest.approx(0.2 * CLIP))
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


@pytest.mark.parametrize("factor", [0.05, 1.1, float("nan")])
def test_the_factor_is_bounded(factor: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        ClipThreshold(1.0).set(factor)
