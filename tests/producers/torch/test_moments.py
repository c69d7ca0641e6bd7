"""A reset makes an optimizer what a new one would be, in all or in some of its parameter groups."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from holter.producers.torch.moments import can_reset, reset_moments, worst_groups
from holter.producers.torch.optim import make as make_stable

pytestmark = pytest.mark.torch
optim = torch.optim

OPTIMIZERS: dict[str, Any] = {
    "adam": lambda groups: optim.Adam(groups, lr=0.1),
    "adamw": lambda groups: optim.AdamW(groups, lr=0.1, amsgrad=True, weight_decay=0.1),
    "nadam": lambda groups: optim.NAdam(groups, lr=0.1),
    "radam": lambda groups: optim.RAdam(groups, lr=0.1),
    "adamax": lambda groups: optim.Adamax(groups, lr=0.1),
    "adafactor": lambda groups: optim.Adafactor(groups, lr=0.1),
    "rmsprop": lambda groups: optim.RMSprop(groups, lr=0.1, momentum=0.9, centered=True),
    "sgd": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True),
    "clippy": lambda groups: make_stable("clippy", groups, lr=0.1),
    "msign": lambda groups: make_stable("msign", groups, lr=0.1, every=100),
    "skip_step": lambda groups: make_stable("skip_step", groups, lr=0.1),
}
OWN_RESETS: dict[str, Any] = {
    "spam": lambda groups: make_stable("spam", groups, lr=0.1, grace=2),
    "spam_sparse": lambda groups: make_stable("spam", groups, lr=0.1, density=0.5, counter="restarted"),
    "stable_spam": lambda groups: make_stable("stable_spam", groups, lr=0.1),
}
"""After which they are not as new: they remember that, and climb back."""


def make(name: str, num_groups: int = 3) -> Any:
    generator = torch.Generator().manual_seed(0)
    groups = [
        {"params": [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((6, 4), (4,))]}
        for _ in range(num_groups)
    ]
    return {**OPTIMIZERS, **OWN_RESETS}[name](groups)


def steps(optimizer: Any, number: int, seed: int = 1, scales: tuple[float, ...] = (1.0, 1.0, 1.0)) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(number):
        for group, scale in zip(optimizer.param_groups, scales, strict=True):
            for weight in group["params"]:
                weight.grad = scale * torch.randn(weight.shape, generator=generator)
        optimizer.step()


def group_weights(optimizer: Any) -> list[torch.Tensor]:
    return [torch.cat([weight.detach().flatten() for weight in group["params"]]) for group in optimizer.param_groups]


def renewed(name: str, optimizer: Any) -> Any:
    fresh = make(name)
    with torch.no_grad():
        for group, other in zip(fresh.param_groups, optimizer.param_groups, strict=True):
            for weight, value in zip(group["params"], other["params"], strict=True):
                weight.copy_(value)
    return fresh


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_after_a_reset_it_is_as_a_fresh_one(name: str) -> None:
    optimizer = make(name)
    steps(optimizer, 5, scales=(1.0, 30.0, 1.0))
    assert can_reset(optimizer)
    reset_moments(optimizer)
    fresh = renewed(name, optimizer)
    for each in (optimizer, fresh):
        steps(each, 4, seed=2)
    for a, b in zip(group_weights(optimizer), group_weights(fresh), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_the_named_groups_forget(name: str) -> None:
    optimizer, untouched = make(name), make(name)
    for each in (optimizer, untouched):
        steps(each, 5)
    reset_moments(optimizer, [1])
    fresh = renewed(name, optimizer)
    for each in (optimizer, untouched, fresh):
        steps(each, 2, seed=2)
    first, second, third = group_weights(optimizer)
    torch.testing.assert_close(second, group_weights(fresh)[1])
    assert torch.equal(first, group_weights(untouched)[0])
    assert torch.equal(third, group_weights(untouched)[2])
    assert not torch.equal(second, group_weights(untouched)[1])


@pytest.mark.parametrize("name", OWN_RESETS)
@pytest.mark.parametrize("groups", [None, [1]])
def test_optimizers_that_know_how_reset_themselves(name: str, groups: list[int] | None) -> None:
    optimizer, by_hand, untouched = make(name), make(name), make(name)
    for each in (optimizer, by_hand, untouched):
        steps(each, 5)
    assert can_reset(optimizer)
    assert reset_moments(optimizer, groups) > 0.0
    by_hand.reset_moments(groups=groups)
    for at, group in enumerate(optimizer.param_groups):
        moments = [optimizer.state[weight][name] for weight in group["params"] for name in ("exp_avg", "exp_avg_sq")]
        assert all(bool((moment == 0).all()) for moment in moments) is (groups is None or at in groups)
    for each in (optimizer, by_hand, untouched):
        steps(each, 3, seed=2)
    for at, (one, other, third) in enumerate(zip(*map(group_weights, (optimizer, by_hand, untouched)), strict=True)):
        assert torch.equal(one, other)
        assert torch.equal(one, third) is (groups is not None and at not in groups)
    assert reset_moments(optimizer, groups) > 0.0  # an order is not held up by a cooldown
    chosen = optimizer.param_groups[1]["params"]
    assert all(bool((optimizer.state[weight]["exp_avg"] == 0).all()) for weight in chosen)


@pytest.mark.parametrize("name", ["adam", "adamw", "nadam", "radam", "sgd", "msign", "spam", "stable_spam"])
def test_the_group_that_met_a_burst_is_the_worst(name: str) -> None:
    optimizer = make(name)
    steps(optimizer, 30)
    steps(optimizer, 1, seed=2, scales=(1.0, 1.0, 1000.0))
    assert worst_groups(optimizer, 1) == [2]
    assert worst_groups(optimizer, 2) == sorted({2, *worst_groups(optimizer, 2)})
    assert worst_groups(optimizer, 9) == [0, 1, 2]


def test_moments_that_are_not_finite_are_the_worst() -> None:
    optimizer = make("adam")
    steps(optimizer, 3)
    next(iter(optimizer.state.values()))["exp_avg"].fill_(float("nan"))
    assert worst_groups(optimizer, 1) == [0]
    reset_moments(optimizer, [0])
    assert all(bool(value.isfinite().all()) for state in optimizer.state.values() for value in state.values())


def test_of_other_optimizers_it_is_not_known() -> None:
    assert not can_reset(optim.LBFGS([torch.nn.Parameter(torch.ones(2))]))
    empty = make("adam")
    assert reset_moments(empty) == 0.0
    assert worst_groups(empty, 1) == [0]
