"""Stable-SPAM (Huang et al., arXiv 2502.17055), its parts written out."""

from __future__ import annotations

import math

import pytest
import torch

from holter.producers.torch.optim import StableSpam
from tests.producers.torch.clip.gradients import FakeRanks
from tests.producers.torch.optim.tapes import copied, give, parameters, train

pytestmark = pytest.mark.torch


def written(gradients: list[torch.Tensor], clips: bool, normalises: bool) -> list[torch.Tensor]:
    """What Adam is given at every step, with θ .999, γ .7 and .9."""
    largest = mean = power = 0.0
    prepared = []
    for count, gradient in enumerate(gradients, 1):
        current = gradient.clone()
        if clips:
            peak = float(current.abs().max())
            largest = 0.999 * largest + 0.001 * peak
            limit = largest / (1 - 0.999**count)
            current = torch.where(current.abs() > limit, current * (limit / peak), current)
        if normalises:
            norm = float(current.norm())
            mean, power = 0.7 * mean + 0.3 * norm, 0.9 * power + 0.1 * norm**2
            level = (mean / (1 - 0.7**count)) / (math.sqrt(power / (1 - 0.9**count)) + 1e-8)
            current = current * (level / norm)
        prepared.append(current)
    return prepared


@pytest.mark.parametrize("clips", [True, False])
@pytest.mark.parametrize("normalises", [True, False])
def test_the_parts_prepare_what_adam_gets(clips: bool, normalises: bool) -> None:
    weights, others = parameters(((5, 4),)), parameters(((5, 4),))
    optimizer = StableSpam(weights, lr=0.01, ada_clip=clips, ada_norm=normalises, interval=0)
    adam = torch.optim.Adam(others, lr=0.01)
    gradients = []
    for step, scale in enumerate([1.0, 1.5, 0.5, 100.0, 1.0, 0.1, 1.0]):
        give(weights, step, scale)
        assert weights[0].grad is not None
        gradients.append(weights[0].grad.clone())
        optimizer.step()
    for prepared in written(gradients, clips, normalises):
        others[0].grad = prepared
        adam.step()
    torch.testing.assert_close(weights[0], others[0], rtol=1e-4, atol=1e-6)


def test_moments_and_counter_start_anew_and_histories_stay() -> None:
    weights, others = parameters(), parameters()
    optimizer = StableSpam(weights, lr=0.01, interval=5, ada_clip=False, ada_norm=False)
    train(optimizer, weights, range(4))
    with torch.no_grad():
        for weight, other in zip(weights, others, strict=True):
            other.copy_(weight)
    train(optimizer, weights, range(4, 8))
    train(torch.optim.Adam(others, lr=0.01), others, range(4, 8))
    for weight, other in zip(weights, others, strict=True):
        torch.testing.assert_close(weight, other)
    assert [float(optimizer.state[weight]["num_seen"]) for weight in weights] == [8.0, 8.0, 8.0]


def test_a_reset_on_demand() -> None:
    weights = parameters()
    optimizer = StableSpam(weights, lr=0.01)
    train(optimizer, weights, range(4))
    optimizer.reset_moments()
    assert all(float(optimizer.state[weight]["exp_avg"].abs().max()) == 0.0 for weight in weights)
    train(optimizer, weights, [4])
    assert optimizer.param_groups[0]["num_since_reset"] == 1


def test_the_update_does_not_depend_on_the_gradients_scale() -> None:
    weights, others = parameters(), parameters()
    one, other = StableSpam(weights, lr=0.01), StableSpam(others, lr=0.01)
    for step, scale in enumerate([1.0, 3.0, 0.2, 50.0, 1.0]):
        give(weights, step, scale)
        give(others, step, 1000 * scale)
        one.step()
        other.step()
    for weight, twin in zip(weights, others, strict=True):
        torch.testing.assert_close(weight, twin, rtol=1e-4, atol=1e-5)


def test_a_gradient_of_zero_stays_zero() -> None:
    weights = parameters(((3,),))
    optimizer, before = StableSpam(weights), weights[0].detach().clone()
    weights[0].grad = torch.zeros(3)
    optimizer.step()
    assert torch.equal(weights[0], before)


def test_histories_keep_their_digits_under_narrow_parameters() -> None:
    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = StableSpam([weight])
    weight.grad = torch.tensor([0.1, 0.2, 0.3, 0.1]).bfloat16()
    optimizer.step()
    other = StableSpam([weight])
    other.load_state_dict(copied(optimizer))
    for name in ("largest", "norm", "squared_norm", "num_seen"):
        history = optimizer.state[weight][name]
        assert torch.equal(history, other.state[weight][name])
        assert history.dtype == other.state[weight][name].dtype == torch.float32


def test_parts_on_two_ranks_are_prepared_as_the_whole() -> None:
    shapes, scales = ((6, 4),), [1.0, 1.0, 30.0, 1.0]
    weights = parameters(shapes)
    whole = StableSpam(weights, lr=0.01)
    for step, scale in enumerate(scales):
        give(weights, step, scale)
        whole.step()
    ranks = FakeRanks(2)

    def work(rank: int) -> torch.Tensor:
        add_up = ranks.adder(rank)

        def largest(amount: torch.Tensor) -> torch.Tensor:
            slots = torch.zeros(2, *amount.shape)
            slots[rank] = amount
            return add_up(slots).amax(0)

        full = parameters(shapes)
        own = torch.nn.Parameter(full[0].detach()[3 * rank : 3 * rank + 3].clone())
        optimizer = StableSpam([own], lr=0.01, largest_over=largest, sum_over=add_up)
        for step, scale in enumerate(scales):
            give(full, step, scale)
            own.grad = full[0].grad[3 * rank : 3 * rank + 3].clone()  # type: ignore[index]
            optimizer.step()
        return own.detach()

    torch.testing.assert_close(torch.cat(ranks.run(work)), weights[0].detach())
