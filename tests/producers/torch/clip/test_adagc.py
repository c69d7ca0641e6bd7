"""Golden numbers and properties of AdaGC (Wang et al., arXiv 2502.11034, third version)."""

from __future__ import annotations

import math

import pytest
import torch

from holter.producers.torch.clip import AdaGC
from tests.producers.torch.clip.gradients import feed, give, give_norms, norms_of, parameters, run

pytestmark = pytest.mark.torch

FIXED_POINTS = [
    (1.04, 0.02, 1.00, 0.025),
    (1.04, 0.05, 0.99, 0.26),
    (1.04, 0.10, 0.96, 0.49),
    (1.04, 0.20, 0.86, 0.67),
    (1.04, 0.30, 0.75, 0.75),
    (1.05, 0.05, 0.995, 0.19),
    (1.05, 0.10, 0.97, 0.42),
    (1.05, 0.20, 0.88, 0.62),
    (1.05, 0.30, 0.77, 0.71),
    (1.5, 0.20, 1.00, 0.017),
    (1.5, 0.30, 0.98, 0.07),
]
"""λ, the norms' coefficient of variation, γ over the mean norm, the share of steps that clip."""


def average(clipper: AdaGC) -> torch.Tensor:
    value: torch.Tensor = clipper.state_dict()["state"]["average"]
    return value


def test_five_against_an_average_of_one() -> None:
    clipper = AdaGC(1.04, 0.99, warmup_steps=1, max_norm=10.0)
    weight = torch.nn.Parameter(torch.ones(2))
    give_norms([weight], [1.0])
    clipper.clip([weight])
    clipper.commit()
    weight.grad = torch.tensor([3.0, 4.0])
    report = clipper.clip([weight])
    clipper.commit()
    torch.testing.assert_close(weight.grad, torch.tensor([3.0, 4.0]) * 0.208)
    assert float(report.norm_after) == pytest.approx(1.04, rel=1e-6)
    assert float(average(clipper)) == pytest.approx(1.0004, rel=1e-6)


def test_the_warm_up_clips_the_global_norm_and_keeps_the_smallest() -> None:
    clipper, weights, others = AdaGC(warmup_steps=4), parameters(), parameters()
    smallest = [math.inf] * 3
    for step, scale in enumerate([1.0, 0.1, 0.02, 3.0]):
        give(weights, step, scale)
        give(others, step, scale)
        clipper.clip(weights)
        clipper.commit()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        assert norms_of(weights) == pytest.approx(norms_of(others), rel=1e-6)
        smallest = [min(pair) for pair in zip(smallest, norms_of(others), strict=True)]
        assert average(clipper).tolist() == pytest.approx(smallest, rel=1e-6)


def test_an_outlier_lifts_the_average_by_four_in_ten_thousand() -> None:
    clipper, weights = AdaGC(warmup_steps=1), parameters()
    run(clipper, weights, [1.0])
    for step in range(3):
        before = average(clipper)
        give(weights, step, scale=1e6)
        clipper.clip(weights)
        clipper.commit()
        torch.testing.assert_close(average(clipper) / before, torch.full((3,), 1.0004))


def test_doubling_takes_693_steps_at_the_first_versions_settings() -> None:
    clipper = AdaGC(1.05, 0.98, warmup_steps=1)
    feed(clipper, [1.0])
    state, norms = clipper.state_dict()["state"], torch.tensor([100.0])
    for _ in range(693):
        _, _, state = clipper._judge(norms, state)
    assert float(state["average"]) == pytest.approx(2.0, rel=2e-3)


@pytest.mark.parametrize(("ratio", "variation", "level", "share"), FIXED_POINTS)
def test_the_fixed_point_under_log_normal_norms(ratio: float, variation: float, level: float, share: float) -> None:
    """γ* = E[min(n, λ γ*)], found by the rule itself over many tensors."""
    clipper = AdaGC(ratio, 0.9, warmup_steps=1)
    spread = math.sqrt(math.log(1 + variation**2))
    generator = torch.Generator().manual_seed(1)
    state = {"num_steps": torch.tensor(5), "average": torch.ones(1000)}
    levels, shares = [], []
    for step in range(130):
        norms = torch.exp(spread * torch.randn(1000, generator=generator) - spread**2 / 2)
        ratios, _, state = clipper._judge(norms, state)
        if step >= 100:
            levels.append(float(state["average"].mean()))
            shares.append(float((ratios < 1).float().mean()))
    assert sum(levels) / len(levels) == pytest.approx(level, abs=0.02)
    assert sum(shares) / len(shares) == pytest.approx(share, abs=0.03)


def test_a_tensor_without_a_gradient_at_first_is_not_held_at_zero() -> None:
    clipper, weights = AdaGC(warmup_steps=3), parameters(((2,), (2,)))
    for norms in ([0.1, 0.0], [0.1, 0.0], [0.1, 0.0], [0.1, 0.0], [0.1, 0.3]):
        give_norms(weights, norms)
        clipper.clip(weights)
        clipper.commit()
    assert norms_of(weights) == pytest.approx([0.1, 0.3])
    assert average(clipper).tolist() == pytest.approx([0.1, 0.3])


def test_a_spike_of_one_tensor_leaves_the_others_alone() -> None:
    clipper, weights = AdaGC(warmup_steps=1), parameters(((2,), (2,)))
    for norms in ([0.1, 0.2], [100.0, 0.2]):
        give_norms(weights, norms)
        clipper.clip(weights)
        clipper.commit()
    assert norms_of(weights) == pytest.approx([0.104, 0.2])
