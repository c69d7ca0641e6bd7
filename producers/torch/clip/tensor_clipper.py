"""Rules over the norm of every parameter's gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch

from holter.producers.torch.clip.clipper import Clipper, State
from holter.producers.torch.clip.norms import tensor_norms
from holter.producers.torch.clip.report import ClipReport
from holter.producers.torch.clip.scaling import scale_each


class TensorClipper(Clipper):
    """Scales every tensor on its own: one that spikes does not starve the others of that step."""

    @abstractmethod
    def _judge(self, norms: torch.Tensor, state: State) -> tuple[torch.Tensor, float, State]:
        """What every norm may be multiplied by at most (≥ 1 leaves it), the ratio that is the threshold, and the
        state after the step. ``norms`` has the shape (num_parameters,), 0 where there is no gradient."""

    @torch.no_grad()
    def clip(self, parameters: Sequence[torch.nn.Parameter]) -> ClipReport:
        norms = tensor_norms(parameters, self._ranks)
        total = torch.linalg.vector_norm(norms)
        state = self._state_for(norms)
        ratios, threshold, learnt = self._judge(norms, state)
        self._learn(learnt, state, total)
        factor = self._factor.value
        scales = torch.clamp(ratios * factor, max=1.0)
        scales = torch.where(torch.isfinite(total), scales, 1.0)
        scale_each(parameters, scales)
        after = torch.linalg.vector_norm(norms * scales)
        return ClipReport(total, after, torch.full_like(total, threshold * factor), (scales < 1.0).sum())
