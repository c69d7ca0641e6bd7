"""Golden numbers of SPAM (Huang et al., ICLR 2025)."""

from __future__ import annotations

import math

import pytest
import torch

from holter.producers.torch.optim import Spam, spam
from tests.producers.torch.optim.tapes import copied, made, parameters, same, train, values

pytestmark = pytest.mark.torch


def noisy(weight: torch.nn.Parameter, deviation: float, generator: torch.Generator) -> None:
    weight.grad = deviation * torch.randn(weight.shape, generator=generator)


def test_the_scale_after_a_reset() -> None:
    found = [spam.warmup_scale(k, 150) for k in (0, 37, 75, 112, 150)]
    assert found == pytest.approx([0.0100, 0.1496, 0.4999, 0.8458, 1.0], abs=5e-5)


def test_a_spiked_coordinate_becomes_the_root_of_theta_v() -> None:
    group = {"threshold": 5000.0, "counter": "author"}
    gradients = [torch.tensor([1e3, -1e3, 0.1, math.nan])]
    clipped = spam._clipped(gradients, [torch.full((4,), 1e-4)], group)
    torch.testing.assert_close(clipped[0], torch.tensor([0.70711, -0.70711, 0.1, math.nan]), equal_nan=True)


def test_a_spike_barely_reaches_the_moments() -> None:
    """1e3 on noise of deviation .01 at step 50; a port whose clip has no effect shows v = 990."""
    weight = torch.nn.Parameter(torch.zeros(4000))
    optimizer, generator = Spam([weight]), torch.Generator().manual_seed(0)
    for _ in range(49):
        noisy(weight, 0.01, generator)
        optimizer.step()
    noisy(weight, 0.01, generator)
    weight.grad.add_(1e3)  # type: ignore[union-attr]
    optimizer.step()
    state = optimizer.state[weight]
    assert float(state["exp_avg_sq"].mean()) == pytest.approx(2.8e-5, rel=0.08)
    assert float(state["exp_avg"].abs().max()) < 0.04


def sizes(counter: spam.Counter, steps: set[int]) -> dict[int, float]:
    """Mean |Δ| over the learning rate at these steps, of gradients that scatter by .4 around 1."""
    weight = torch.nn.Parameter(torch.zeros(500))
    optimizer, generator = Spam([weight], lr=1.0, counter=counter), torch.Generator().manual_seed(0)
    found = {}
    for step in range(1, max(steps) + 1):
        before = weight.detach().clone()
        noisy(weight, 0.4, generator)
        weight.grad.add_(1.0)  # type: ignore[union-attr]
        optimizer.step()
        if step in steps:
            found[step] = float((weight.detach() - before).abs().mean())
    return found


def test_the_authors_counter_boosts_the_middle_of_a_cycle() -> None:
    expected = {499: 0.93, 500: 0.020, 550: 0.64, 600: 1.43, 650: 1.66, 998: 1.12}
    assert sizes("author", set(expected)) == pytest.approx(expected, rel=0.08)


def test_the_restarted_counter_does_not() -> None:
    expected = {499: 0.93, 500: 0.0093, 575: 0.93 * 0.4999, 650: 0.93, 998: 0.93}
    assert sizes("restarted", set(expected)) == pytest.approx(expected, rel=0.08)


def test_the_moments_go_by_the_clock() -> None:
    weights = parameters()
    optimizer = Spam(weights, interval=5)
    train(optimizer, weights, range(4))
    assert float(optimizer.state[weights[0]]["exp_avg_sq"].sum()) > 0
    train(optimizer, weights, [4])
    gradient = weights[0].grad
    assert gradient is not None
    torch.testing.assert_close(optimizer.state[weights[0]]["exp_avg"], 0.1 * gradient)
    torch.testing.assert_close(optimizer.state[weights[0]]["exp_avg_sq"], 0.001 * gradient**2)


def test_the_first_cycle_is_adam_without_a_warm_up() -> None:
    """But for ε, which SPAM adds after the correction."""
    weights, others = parameters(), parameters()
    train(Spam(weights, lr=0.01, eps=0.0, threshold=1e12), weights, range(30))
    train(torch.optim.Adam(others, lr=0.01, eps=1e-30), others, range(30))
    for weight, other in zip(weights, others, strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("counter", ["author", "restarted"])
def test_a_coordinate_without_a_history(counter: spam.Counter) -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = Spam([weight], counter=counter)
    for _ in range(30):
        weight.grad = torch.tensor([1.0, 0.0])
        optimizer.step()
    weight.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    assert (float(weight[1].detach()) == 0.0) == (counter == "author")


def test_a_reset_on_demand_warms_up_and_has_a_cooldown() -> None:
    weights = parameters()
    optimizer = Spam(weights, lr=0.01)
    train(optimizer, weights, range(30))
    assert optimizer.reset_moments(cooldown_steps=5)
    assert not optimizer.reset_moments(cooldown_steps=5)
    assert all(float(optimizer.state[weight]["exp_avg"].abs().max()) == 0.0 for weight in weights)
    before = weights[0].detach().clone()
    train(optimizer, weights, [30])
    assert 0 < float((weights[0].detach() - before).abs().max()) < 0.05 * 0.01
    train(optimizer, weights, range(31, 34))
    assert not optimizer.reset_moments(cooldown_steps=5)
    train(optimizer, weights, [34])
    assert optimizer.reset_moments(cooldown_steps=5)


def test_the_grace_follows_a_reset_on_demand() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = Spam([weight], warmup=0)
    for _ in range(30):
        weight.grad = torch.ones(2)
        optimizer.step()
    optimizer.reset_moments()
    weight.grad = torch.ones(2)
    optimizer.step()
    torch.testing.assert_close(optimizer.state[weight]["exp_avg"], torch.full((2,), 0.1))


def test_sparse_moments_move_a_share_that_is_drawn_anew() -> None:
    weights = parameters(((20, 10), (8,)))
    optimizer = Spam(weights, lr=1.0, density=0.25, interval=10, grace=2)
    moved = []
    for step in range(1, 21):
        before = [weight.detach().clone() for weight in weights]
        train(optimizer, weights, [step])
        moved.append((weights[0].detach() != before[0]).view(-1))
        assert (weights[1].detach() != before[1]).all()
    assert optimizer.state[weights[0]]["exp_avg"].shape == (50,)
    assert all(int(each.sum()) == 50 for each in moved)
    assert all(torch.equal(each, moved[0]) for each in moved[:9])
    assert not torch.equal(moved[9], moved[0])


def test_masks_differ_between_parameters_and_seeds() -> None:
    def places(seed: int) -> list[torch.Tensor]:
        weights = parameters(((20, 10), (20, 10)))
        before = [weight.detach().clone() for weight in weights]
        train(Spam(weights, density=0.25, seed=seed), weights, [0])
        return [weight.detach() != was for weight, was in zip(weights, before, strict=True)]

    (one, other), (again, _), (third, _) = places(0), places(0), places(1)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, third)


def test_sparse_moments_survive_narrow_parameters() -> None:
    """A loaded state is cast to the parameters' type: positions kept in it would be rounded."""
    weights = [torch.nn.Parameter(weight.detach().bfloat16()) for weight in parameters()]
    others = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    one, other = made("spam_sparse", weights), made("spam_sparse", others)
    for optimizer, own, steps in ((one, weights, range(8)), (other, others, range(4))):
        for step in steps:
            give_narrow(own, step)
            optimizer.step()
    third = made("spam_sparse", others)
    third.load_state_dict(copied(other))
    for step in range(4, 8):
        give_narrow(others, step)
        third.step()
    assert same(values(one, weights), values(third, others))


def give_narrow(weights: list[torch.nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator).bfloat16()
