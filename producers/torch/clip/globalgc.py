"""Static clipping of the global norm."""

from __future__ import annotations

import torch

from holter.producers.torch.clip.clipper import State
from holter.producers.torch.clip.global_clipper import GlobalClipper
from holter.producers.torch.clip.ranks import Ranks


class GlobalGC(GlobalClipper):
    """g ← g · min(1, λ / (‖g‖ + 1e-6)) with one λ for the whole run; the same bits as ``clip_grad_norm_``.

    Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", ICML 2013. Without a
    state; λ = 1 is what GPT-3, Llama 2 and OLMo 2 used. Two limits: gradients shrink during training, so a fixed λ
    stops binding, and one tensor's spike scales all others down.
    """

    name = "globalgc"

    def __init__(self, max_norm: float = 1.0, ranks: Ranks | None = None) -> None:
        super().__init__(ranks)
        if not max_norm > 0:
            raise ValueError(f"max_norm {max_norm} must be above 0")
        self._max_norm = max_norm

    def _fresh(self, norms: torch.Tensor) -> State:
        return {}

    def _judge(self, norm: torch.Tensor, state: State) -> tuple[float, State]:
        return self._max_norm, {}
