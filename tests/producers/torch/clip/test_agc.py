"""Golden numbers of NFNets (Brock et al., ICML 2021), and what a unit is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holter.producers.torch.clip import Agc
from holter.producers.torch.clip.units import unit_norms
from tests.producers.torch.clip.gradients import give, parameters

pytestmark = pytest.mark.torch


def test_a_row_of_norm_two_lets_a_fiftieth_through() -> None:
    weight = torch.nn.Parameter(torch.tensor([[2.0, 0.0], [0.0, 200.0]]))
    weight.grad = torch.tensor([[0.0, 1.0], [0.6, 0.8]])
    report = Agc(0.01).clip([weight])
    torch.testing.assert_close(weight.grad, torch.tensor([[0.0, 0.02], [0.6, 0.8]]))
    assert int(report.num_clipped) == 1


def test_units_are_outputs_and_whole_small_tensors() -> None:
    weights = parameters(((3, 4), (5,), (2, 3, 3, 3), ()))
    for weight, num_units in zip(weights, (3, 1, 2, 1), strict=True):
        assert unit_norms(weight.detach()).shape == (num_units,)
    torch.testing.assert_close(unit_norms(weights[2].detach())[1], weights[2].detach()[1].norm())


@given(st.floats(1e-3, 1.0), st.integers(0, 1000), st.sampled_from([1e-4, 1.0, 1e4]))
def test_no_unit_exceeds_its_share_of_the_weights(ratio: float, seed: int, scale: float) -> None:
    weights = parameters()
    give(weights, seed, scale)
    before = [unit_norms(weight.grad) for weight in weights if weight.grad is not None]
    Agc(ratio).clip(weights)
    for weight, was in zip(weights, before, strict=True):
        bound = ratio * unit_norms(weight.detach()).clamp(min=1e-3)
        assert weight.grad is not None
        torch.testing.assert_close(unit_norms(weight.grad), torch.minimum(was, bound), rtol=1e-5, atol=1e-12)


def test_a_row_that_is_still_zero_moves() -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 3))
    weight.grad = torch.ones(2, 3)
    Agc(0.01).clip([weight])
    torch.testing.assert_close(unit_norms(weight.grad), torch.full((2,), 1e-5))


def test_a_unit_is_clipped_alike_at_every_scale_of_its_own() -> None:
    weights, scaled = parameters(((4, 3),)), parameters(((4, 3),))
    factors = torch.tensor([[1.0], [4.0], [16.0], [64.0]])
    give(weights, 1, scale=5.0)
    give(scaled, 1, scale=5.0)
    with torch.no_grad():
        scaled[0].mul_(factors)
        assert scaled[0].grad is not None
        scaled[0].grad.mul_(factors)
    Agc(0.1).clip(weights)
    Agc(0.1).clip(scaled)
    assert weights[0].grad is not None
    torch.testing.assert_close(scaled[0].grad, weights[0].grad * factors)


def test_an_excluded_layer_is_left_as_it_is_and_measured() -> None:
    weights = parameters(((3, 4), (6, 3)))
    give(weights, 0, scale=100.0)
    head = weights[1].grad.clone()  # type: ignore[union-attr]
    report = Agc(0.01, exclude=[weights[1]]).clip(weights)
    assert torch.equal(weights[1].grad, head)  # type: ignore[arg-type]
    assert float(report.norm_after) == pytest.approx(float(head.norm()), rel=1e-3)
