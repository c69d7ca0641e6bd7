"""Clearing an optimizer's memory."""

from __future__ import annotations

import torch
from torch import optim

_RESETTABLE = (optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.SGD, optim.RMSprop)
_PRODUCTS = ("mu_product",)
"""State that a fresh optimizer starts at one instead of zero."""
_AVERAGES = ("exp_avg", "momentum_buffer", "square_avg")


def can_reset(optimizer: optim.Optimizer) -> bool:
    """Whether zero moments are a fresh start for this optimizer; of others that is not known."""
    return isinstance(optimizer, _RESETTABLE)


@torch.no_grad()
def reset_moments(optimizer: optim.Optimizer) -> float:
    """Zeroes moments and step counters in place; returns the norm of the first moments before."""
    before = moments_norm(optimizer)
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                value.fill_(1.0 if name in _PRODUCTS else 0.0)
            elif name == "step":
                state[name] = 0
    return before


def moments_norm(optimizer: optim.Optimizer) -> float:
    """The norm over all first moments; waits for the device."""
    moments = [state[name] for state in optimizer.state.values() for name in _AVERAGES if _has(state, name)]
    if not moments:
        return 0.0
    norms = [norm.double().cpu() for norm in torch._foreach_norm(moments)]
    return float(torch.linalg.vector_norm(torch.stack(norms)))


def _has(state: dict[str, object], name: str) -> bool:
    return isinstance(state.get(name), torch.Tensor)
