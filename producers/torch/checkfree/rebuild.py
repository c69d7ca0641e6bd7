"""The weights of a stage that nobody has any more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


@torch.no_grad()
def rebuild(
    before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], norm_before: float, norm_after: float
) -> list[torch.Tensor]:
    """W_i ← (ω_{i−1} W_{i−1} + ω_{i+1} W_{i+1}) / (ω_{i−1} + ω_{i+1}), with ω the stages' last gradient norms.

    The neighbour that still learns more counts more. Source: Blagoev et al., "All is not lost: LLM recovery without
    checkpoints" (CheckFree), arXiv 2506.15461, Algorithm 1, whose second ω_{i−1} is a misprint; the authors' code takes
    the plain 2-norm after clipping.

    Args:
        before, after: the weights of the stages i − 1 and i + 1, of equal shapes.
        norm_before, norm_after: their ω.

    Raises:
        ValueError: the stages are unlike, or the norms say nothing.

    >>> rebuild([torch.tensor([1.0, 2.0])], [torch.tensor([5.0, 6.0])], 1.0, 3.0)
    [tensor([4., 5.])]
    """
    if not (math.isfinite(norm_before + norm_after) and min(norm_before, norm_after) >= 0.0 < norm_before + norm_after):
        raise ValueError(f"gradient norms {norm_before} and {norm_after} give no weights: one must be above 0")
    if [each.shape for each in before] != [each.shape for each in after]:
        raise ValueError("stages of unequal shapes cannot be averaged")
    share = norm_after / (norm_before + norm_after)
    return [torch.lerp(earlier, later, share) for earlier, later in zip(before, after, strict=True)]
