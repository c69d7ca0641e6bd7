"""Clearing an optimizer's memory, all of it or that of the parameter groups it harms most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import optim

from holter.producers.torch.optim.spam import Spam
from holter.producers.torch.optim.stable_spam import StableSpam
from holter.producers.torch.optim.wrapper import Wrapper
from holter.producers.torch.sharding import local_part

_RESETTABLE = tuple(
    getattr(optim, name)
    for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SGD", "RMSprop", "Adafactor")
    if hasattr(optim, name)
)
_PRODUCTS = ("mu_product",)
"""State that a fresh optimizer starts at one instead of zero."""
_FIRST_MOMENTS = ("exp_avg", "momentum_buffer")
_SECOND_MOMENTS = ("exp_avg_sq", "square_avg")
_SMALLEST = 1e-30


def can_reset(optimizer: optim.Optimizer) -> bool:
    """Whether zero moments are a fresh start for this optimizer; of others that is not known."""
    return isinstance(_innermost(optimizer), (*_RESETTABLE, Spam, StableSpam))


@torch.no_grad()
def reset_moments(optimizer: optim.Optimizer, groups: Sequence[int] | None = None) -> float:
    """Zeroes moments and step counters in place, of these parameter groups or of all.

    Returns:
        The norm of their first moments before, over this rank's parts.
    """
    states = _states(optimizer, range(len(optimizer.param_groups)) if groups is None else groups)
    before = math.sqrt(_sum_of_squares(states, (*_FIRST_MOMENTS, "square_avg")))
    own = _innermost(optimizer)
    if isinstance(own, Spam):
        own.reset_moments(0, groups)
    elif isinstance(own, StableSpam):
        own.reset_moments(groups)
    else:
        _zero(states)
    return before


@torch.no_grad()
def worst_groups(optimizer: optim.Optimizer, number: int) -> list[int]:
    """The parameter groups whose moments are out of proportion most; waits for the device.

    With second moments that is √(Σm² / Σv), near or below 1 in a calm run and above it after gradients that the
    second moments have not caught up with (the RMS of Wortsman et al. 2023, "Stable and low-precision training for
    large-scale vision-language models", with the first moment in the gradient's place); else the first moments
    beside the weights.
    """
    badness = {at: _badness(optimizer, at) for at in range(len(optimizer.param_groups))}
    return sorted(sorted(badness, key=lambda at: (-badness[at], at))[:number])


def _innermost(optimizer: optim.Optimizer) -> optim.Optimizer:
    """Wrappers share the state of what they wrap and have no moments of their own."""
    while isinstance(optimizer, Wrapper):
        optimizer = optimizer.base
    return optimizer


def _zero(states: Iterable[dict[str, Any]]) -> None:
    for state in states:
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                local_part(value).fill_(1.0 if name in _PRODUCTS else 0.0)
            elif name == "step":
                state[name] = 0


def _badness(optimizer: optim.Optimizer, group: int) -> float:
    states = _states(optimizer, [group])
    second = _total(_tensors(states, _SECOND_MOMENTS))
    if second is None:
        weights = [local_part(weight.detach()) for weight in optimizer.param_groups[group]["params"]]
        second = _square(weights)
    return _finite(math.sqrt(_sum_of_squares(states, _FIRST_MOMENTS) / max(second, _SMALLEST)))


def _finite(badness: float) -> float:
    return badness if math.isfinite(badness) else math.inf


def _states(optimizer: optim.Optimizer, groups: Iterable[int]) -> list[dict[str, Any]]:
    weights = [weight for at in groups for weight in optimizer.param_groups[at]["params"]]
    return [optimizer.state[weight] for weight in weights if weight in optimizer.state]


def _tensors(states: Sequence[dict[str, Any]], names: Sequence[str]) -> list[torch.Tensor]:
    found = [state[name] for state in states for name in names if isinstance(state.get(name), torch.Tensor)]
    return [local_part(tensor) for tensor in found]


def _sum_of_squares(states: Sequence[dict[str, Any]], names: Sequence[str]) -> float:
    return _square(_tensors(states, names))


def _square(tensors: Iterable[torch.Tensor]) -> float:
    return sum(float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2 for tensor in tensors)


def _total(tensors: Sequence[torch.Tensor]) -> float | None:
    return sum(float(tensor.sum(dtype=torch.float64)) for tensor in tensors) if tensors else None
