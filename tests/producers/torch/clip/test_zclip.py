"""Golden numbers of ZClip (Kumar et al., arXiv 2504.02507), and its recursion written out."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holter.producers.torch.clip import ZClip
from holter.producers.torch.clip.zclip import Mode
from tests.producers.torch.clip.gradients import feed

pytestmark = pytest.mark.torch


def state(clipper: ZClip) -> tuple[float, float]:
    values = clipper.state_dict()["state"]
    return float(values["mean"]), float(values["variance"])


def test_three_against_one_and_a_half_deviation() -> None:
    clipper = ZClip(max_score=2.0, warmup_steps=2, max_norm=None)
    assert feed(clipper, [0.5, 1.5]) == [0.5, 1.5]
    assert state(clipper) == pytest.approx((1.0, 0.25))
    assert feed(clipper, [3.0]) == pytest.approx([1.5], rel=1e-5)
    assert state(clipper) == pytest.approx((1.015, 0.24956), rel=2e-5)


@pytest.mark.parametrize(("mode", "expected"), [("reciprocal", 1.5), ("max", 2.0), ("mean", 1.0)])
def test_the_modes(mode: Mode, expected: float) -> None:
    clipper = ZClip(max_score=2.0, warmup_steps=2, max_norm=None, mode=mode)
    assert feed(clipper, [0.5, 1.5, 3.0])[-1] == pytest.approx(expected, rel=1e-5)


def test_the_cap_holds_always_and_is_not_learnt() -> None:
    clipper = ZClip(max_score=2.0, warmup_steps=2, max_norm=0.8)
    assert feed(clipper, [0.5, 1.5, 3.0]) == pytest.approx([0.5, 0.8, 0.8], rel=1e-5)
    assert state(clipper)[0] == pytest.approx(1.015, rel=1e-5)


def test_frozen_at_a_spike_where_asked() -> None:
    clipper = ZClip(max_score=2.0, warmup_steps=2, max_norm=None, skip_update_on_spike=True)
    assert feed(clipper, [0.5, 1.5, 3.0])[-1] == pytest.approx(1.5, rel=1e-5)
    assert state(clipper) == pytest.approx((1.0, 0.25))


class Written:
    """The rule in plain floats."""

    def __init__(self, warmup_steps: int) -> None:
        self.buffer: list[float] = []
        self.warmup_steps = warmup_steps
        self.mean = self.variance = math.nan

    def let_through(self, norm: float) -> float:
        if len(self.buffer) < self.warmup_steps:
            self.buffer.append(norm)
            self.mean, self.variance = statistics.fmean(self.buffer), statistics.pvariance(self.buffer)
            return norm
        deviation = math.sqrt(self.variance)
        score = (norm - self.mean) / (deviation + 1e-6)
        reduced = self.mean + 2.5**2 / score * deviation if score > 2.5 else norm
        self.mean = 0.97 * self.mean + 0.03 * reduced
        self.variance = 0.97 * self.variance + 0.03 * (reduced - self.mean) ** 2
        return reduced


@given(st.lists(st.floats(0.5, 50.0), min_size=6, max_size=40))
def test_any_tape_goes_as_written(norms: list[float]) -> None:
    clipper, written = ZClip(warmup_steps=5, max_norm=None), Written(5)
    for norm in norms:
        expected = written.let_through(norm)
        if written.variance > 1e-4:  # of all but equal norms, float32 knows no deviation
            assert feed(clipper, [norm]) == pytest.approx([expected], rel=2e-3)
        else:
            feed(clipper, [norm])


@pytest.mark.parametrize(("spread", "share"), [(0.05, 0.013), (0.15, 0.022), (0.3, 0.036)])
def test_log_normal_norms_are_clipped_for_nothing(spread: float, share: float) -> None:
    """Many independent runs at once: the rule works element by element."""
    clipper = ZClip(max_norm=None)
    generator = torch.Generator().manual_seed(3)
    values = clipper._fresh(torch.zeros(500))
    shares = []
    for step in range(400):
        norms = torch.exp(spread * torch.randn(500, generator=generator))
        ceiling, values = clipper._judge(norms, values)
        shares += [float((ceiling < norms).float().mean())] if step >= 200 else []
    assert statistics.fmean(shares) == pytest.approx(share, rel=0.12)
