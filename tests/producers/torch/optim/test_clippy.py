"""Golden numbers of Clippy (Tang et al., KDD 2023): the paper's form and its TensorFlow Recommenders code."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holter.producers.torch.clip import GlobalGC
from holter.producers.torch.optim import Clippy, ClippyAdagrad
from holter.producers.torch.optim.shrink import shrink_factor
from tests.producers.torch.clip.gradients import FakeRanks
from tests.producers.torch.optim.tapes import give, parameters, same, train, values

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("reference", [4.0, -4.0])
def test_an_update_of_two_on_a_weight_of_four(reference: float) -> None:
    update = torch.tensor([2.0])
    factor = shrink_factor(update, torch.tensor([reference]), relative=0.1, absolute=0.02)
    assert float(factor) == pytest.approx(0.21)
    assert float(factor * update) == pytest.approx(0.42)


def test_the_worst_coordinate_decides_for_all() -> None:
    update = torch.ones(2)
    factor = shrink_factor(update, torch.tensor([1.0, 0.1]), relative=0.1, absolute=0.01)
    torch.testing.assert_close(factor * update, torch.tensor([0.02, 0.02]))


@pytest.mark.parametrize(("clips", "accumulated"), [(False, 100.01), (True, 0.1)])
def test_a_step_of_the_authors_code(clips: bool, accumulated: float) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    options = {"relative": 0.4, "preconditioned": 0.01, "absolute": 0.1, "initial_accumulator": 0.01}
    optimizer = ClippyAdagrad([weight], lr=0.2, delayed_accumulator=True, clip_accumulator=clips, **options)
    weight.grad = torch.tensor([10.0, 10.0])
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.4, 1.4]))
    torch.testing.assert_close(optimizer.state[weight]["sum"], torch.full((2,), accumulated))


def test_the_papers_adagrad_adds_before_it_divides() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = ClippyAdagrad([weight], lr=0.2, initial_accumulator=0.1)
    weight.grad = torch.tensor([3.0])
    optimizer.step()
    assert float(weight.detach()) == pytest.approx(1.0 - 0.2 * 3.0 / 9.1**0.5)


def test_without_an_exceedance_the_bits_are_those_of_adamw() -> None:
    weights, others = parameters(), parameters()
    optimizer = Clippy(weights, lr=1e-3, weight_decay=0.1)
    plain = torch.optim.AdamW(others, lr=1e-3, weight_decay=0.1, foreach=True)
    train(optimizer, weights, range(20))
    train(plain, others, range(20))
    assert all((factors == 1).all() for factors in optimizer.factors)
    assert same(values(optimizer, weights), values(plain, others))


@given(st.floats(1e-3, 10.0), st.floats(0.0, 1.0), st.floats(1e-3, 0.1), st.integers(0, 100))
def test_no_weight_moves_further_than_its_bound(rate: float, relative: float, absolute: float, seed: int) -> None:
    weights = parameters()
    optimizer = Clippy(weights, lr=rate, weight_decay=0.0, relative=relative, absolute=absolute)
    for step in range(3):
        before = [weight.detach().clone() for weight in weights]
        give(weights, seed + step)
        optimizer.step()
        for weight, was, factor in zip(weights, before, optimizer.factors[0], strict=True):
            bounds = relative * was.abs() + absolute
            ratios = (weight.detach() - was).abs() / bounds
            assert float(ratios.max()) <= 1 + 1e-3
            if factor < 1:  # and one goes all the way
                assert float(ratios.max()) == pytest.approx(1.0, rel=1e-3)


def test_a_burst_of_the_learning_rate_is_held() -> None:
    weights, others = parameters(), parameters()
    optimizer, plain = Clippy(weights, lr=1e-3), torch.optim.AdamW(others, lr=1e-3)
    for each in (optimizer, plain):
        each.param_groups[0]["lr"] = 3.0
    start = [weight.detach().clone() for weight in weights]
    train(optimizer, weights, [0])
    train(plain, others, [0])
    moved = [float((weight.detach() - was).norm()) for weight, was in zip(weights, start, strict=True)]
    unbound = [float((weight.detach() - was).norm()) for weight, was in zip(others, start, strict=True)]
    assert max(moved) < 0.05 * min(unbound)


def test_what_clips_after_the_moments_lets_a_spike_into_them() -> None:
    weights, others = parameters(), parameters()
    after, before = Clippy(weights), torch.optim.AdamW(others)
    give(weights, 0, scale=1000.0)
    give(others, 0, scale=1000.0)
    GlobalGC(1.0).clip(others)
    after.step()
    before.step()
    norms = [
        sum(float(optimizer.state[weight]["exp_avg"].square().sum()) for weight in own) ** 0.5
        for optimizer, own in ((after, weights), (before, others))
    ]
    assert norms[0] > 100.0
    assert norms[1] == pytest.approx(0.1, rel=1e-4)


def test_ranks_agree_on_the_factor() -> None:
    shapes = ((6, 4),)
    weights = parameters(shapes)
    whole = Clippy(weights, lr=0.5)
    train(whole, weights, range(3))
    ranks = FakeRanks(2)

    def work(rank: int) -> torch.Tensor:
        add_up = ranks.adder(rank)

        def largest(amount: torch.Tensor) -> torch.Tensor:
            slots = torch.zeros(2, *amount.shape)
            slots[rank] = amount
            return add_up(slots).amax(0)

        full = parameters(shapes)
        own = torch.nn.Parameter(full[0].detach()[3 * rank : 3 * rank + 3].clone())
        optimizer = Clippy([own], lr=0.5, largest_over=largest)
        for step in range(3):
            give(full, step)
            own.grad = full[0].grad[3 * rank : 3 * rank + 3].clone()  # type: ignore[index]
            optimizer.step()
        return own.detach()

    torch.testing.assert_close(torch.cat(ranks.run(work)), weights[0].detach())
