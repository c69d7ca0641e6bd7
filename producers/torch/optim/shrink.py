"""How far an update may go, coordinate by coordinate."""

from __future__ import annotations

import torch


def shrink_factor(
    update: torch.Tensor, weight: torch.Tensor, relative: float, absolute: float, extra: torch.Tensor | None = None
) -> torch.Tensor:
    """σ = min(1, min_i (λ_rel |w_i| + λ_abs + extra_i) / |u_i|): one scalar, chosen by the worst coordinate.

    Source: Tang et al., "Improving Training Stability for Multitask Ranking Models in Recommender Systems", KDD 2023,
    arXiv 2302.09178, algorithm 1. ``update`` is with its learning rate.

    >>> shrink_factor(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.1]), relative=0.1, absolute=0.01)
    tensor(0.0200)
    """
    bounds = weight.abs().mul_(relative).add_(absolute)
    if extra is not None:
        bounds.add_(extra)
    return factor_of(torch.linalg.vector_norm(update / bounds, torch.inf))


def factor_of(worst: torch.Tensor) -> torch.Tensor:
    """Of the largest ratio between an update and its bound, for any shape; 1 where there is no update."""
    return torch.clamp(1.0 / worst, max=1.0)
