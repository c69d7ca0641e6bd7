"""Rules over the norm of the whole gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch

from holter.producers.torch.clip.clipper import Clipper, State
from holter.producers.torch.clip.norms import global_norm
from holter.producers.torch.clip.report import ClipReport
from holter.producers.torch.clip.scaling import scale_all

_EPSILON = 1e-6
"""Of ``torch.nn.utils.clip_grad_norm_``."""


class GlobalClipper(Clipper):
    """Scales the whole gradient so that its norm is at most the rule's ceiling, as ``clip_grad_norm_`` does."""

    @abstractmethod
    def _judge(self, norm: torch.Tensor, state: State) -> tuple[float | torch.Tensor, State]:
        """The largest norm let through at this step, and the state after it."""

    @torch.no_grad()
    def clip(self, parameters: Sequence[torch.nn.Parameter]) -> ClipReport:
        norm = global_norm(parameters, self._ranks)
        state = self._state_for(norm)
        ceiling, learnt = self._judge(norm, state)
        self._learn(learnt, state, norm)
        ceiling = ceiling * self._factor.value
        scale = torch.clamp(ceiling / (norm + _EPSILON), max=1.0)
        scale = torch.where(torch.isfinite(norm), scale, 1.0)
        scale_all(parameters, scale)
        threshold = ceiling if isinstance(ceiling, torch.Tensor) else torch.full_like(norm, ceiling)
        return ClipReport(norm, norm * scale, threshold, ((norm > ceiling) & torch.isfinite(norm)).sum())
