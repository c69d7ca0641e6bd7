"""Golden numbers: Pascanu et al. 2013, and ``clip_grad_norm_`` bit for bit."""

from __future__ import annotations

import pytest
import torch

from holter.producers.torch.clip import GlobalGC
from tests.producers.torch.clip.gradients import give, give_norms, norms_of, parameters

pytestmark = pytest.mark.torch


def test_norms_three_and_four_become_point_six_and_point_eight() -> None:
    weights = parameters(((2,), (3,)))
    give_norms(weights, [3.0, 4.0])
    report = GlobalGC(1.0).clip(weights)
    assert norms_of(weights) == pytest.approx([0.6, 0.8], rel=1e-6)
    assert [float(report.norm_before), float(report.threshold)] == [5.0, 1.0]


@pytest.mark.parametrize("max_norm", [1.0, 0.3, 7.0, 1e6])
@pytest.mark.parametrize("scale", [0.01, 1.0, 1e4])
def test_the_bits_are_those_of_clip_grad_norm(max_norm: float, scale: float) -> None:
    weights, others = parameters(), parameters()
    for step in range(5):
        give(weights, step, scale)
        give(others, step, scale)
        report = GlobalGC(max_norm).clip(weights)
        norm = torch.nn.utils.clip_grad_norm_(others, max_norm)
        assert torch.equal(report.norm_before, norm)
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(weights, others, strict=True))  # type: ignore[arg-type]
