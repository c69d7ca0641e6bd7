"""AdaGC: every tensor against its own past."""

from __future__ import annotations

import torch

from holter.producers.torch.clip.clipper import State
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.clip.tensor_clipper import TensorClipper


class AdaGC(TensorClipper):
    """g_i ← min(1, λ γ_i / ‖g_i‖) g_i, with γ_i the average norm of what tensor i was clipped to.

    For the first T steps the global norm is clipped to ``max_norm`` and γ_i is the smallest norm of tensor i after
    that; then γ_i ← β γ_i + (1 − β) ‖g_i after clipping‖.

    Source: Wang et al., "AdaGC", ICML 2026, arXiv 2502.11034 (third version; the first had λ 1.05, β .98). It is an
    average of *clipped* norms and holds no median deviation. Two consequences: an outlier raises γ by at most
    1 + (1 − β)(λ − 1), so γ needs 1,733 steps to double, and where norms scatter by 10 % (small batches) half of all
    tensors are clipped at every step.

    A norm of exactly 0 (an unused expert, a layer behind a zero-initialised one) is no observation: as the smallest
    norm it would hold its tensor at 0 for ever.
    """

    name = "adagc"

    def __init__(
        self,
        ratio: float = 1.04,
        beta: float = 0.99,
        warmup_steps: int = 100,
        max_norm: float = 1.0,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(ranks)
        if not (ratio > 0 and 0 <= beta < 1 and warmup_steps >= 1 and max_norm > 0):
            raise ValueError("AdaGC needs ratio > 0, 0 ≤ beta < 1, warmup_steps ≥ 1 and max_norm > 0")
        self._ratio, self._beta, self._warmup_steps, self._max_norm = ratio, beta, warmup_steps, max_norm

    def _fresh(self, norms: torch.Tensor) -> State:
        count = torch.zeros((), dtype=torch.int64, device=norms.device)
        return {"num_steps": count, "average": torch.full_like(norms, torch.inf)}

    def _judge(self, norms: torch.Tensor, state: State) -> tuple[torch.Tensor, float, State]:
        average = state["average"]
        is_warming = state["num_steps"] < self._warmup_steps
        by_all = self._max_norm / (torch.linalg.vector_norm(norms) + 1e-6)
        by_itself = self._ratio * average / norms
        ratios = torch.where(is_warming, by_all, by_itself)
        ratios = torch.where(norms > 0, ratios, 1.0)
        after = norms * torch.clamp(ratios, max=1.0)
        is_first = is_warming | torch.isinf(average)
        moved = torch.where(is_first, torch.minimum(average, after), average.lerp(after, 1 - self._beta))
        learnt = torch.where(norms > 0, moved, average)
        return ratios, self._ratio, {"num_steps": state["num_steps"] + 1, "average": learnt}
