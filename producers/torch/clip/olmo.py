"""OLMo's adaptive clipping: every tensor against the average of what it was let through."""

from __future__ import annotations

import torch

from holter.producers.torch.clip.clipper import State
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.clip.tensor_clipper import TensorClipper


class OlmoClip(TensorClipper):
    """g_i ← min(1, r a_i / (‖g_i‖ + 1e-6)) g_i, with a_i ← ρ a_i + (1 − ρ) ‖g_i after clipping‖, ρ = max(β1, β2).

    Source: the ``max_grad_norm_ratio`` of AI2's OLMo training code. A tensor's first norm is its first average. The
    code leaves r to its user; 2 clips almost nothing (.7 % of steps) where norms scatter by 30 %. A norm of exactly 0
    is no observation.
    """

    name = "olmo"

    def __init__(
        self, ratio: float = 2.0, betas: tuple[float, float] = (0.9, 0.95), ranks: Ranks | None = None
    ) -> None:
        super().__init__(ranks)
        if not (ratio > 0 and 0 <= max(betas) < 1):
            raise ValueError("the OLMo clipper needs ratio > 0 and betas below 1")
        self._ratio, self._rate = ratio, max(betas)

    def _fresh(self, norms: torch.Tensor) -> State:
        return {"average": torch.full_like(norms, torch.inf)}

    def _judge(self, norms: torch.Tensor, state: State) -> tuple[torch.Tensor, float, State]:
        average = state["average"]
        ratios = self._ratio * average / (norms + 1e-6)
        after = norms * torch.clamp(ratios, max=1.0)
        moved = torch.where(torch.isinf(average), after, average.lerp(after, 1 - self._rate))
        return ratios, self._ratio, {"average": torch.where(norms > 0, moved, average)}
