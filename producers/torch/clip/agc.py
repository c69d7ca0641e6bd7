"""AGC: every unit's gradient against its own weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from holter.producers.torch.clip.clipper import Clipper, State
from holter.producers.torch.clip.norms import global_norm, local_norms
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.clip.report import ClipReport
from holter.producers.torch.clip.units import Units
from holter.producers.torch.sharding import is_sharded


def _never(parameter: torch.nn.Parameter) -> bool:
    return False


class Agc(Clipper):
    """Where ‖G_i‖ / max(‖W_i‖, ε) > λ: G_i ← λ max(‖W_i‖, ε) / max(‖G_i‖, 1e-6) · G_i, for every unit i.

    A unit is what makes one output: a row of a linear layer, a filter of a convolution (all dimensions but the
    first, where PyTorch keeps the outputs; Haiku, in which the authors wrote it, keeps them last); of parameters
    with fewer than two dimensions, the whole. ε lets units that are still zero move.

    Source: Brock et al., NFNets, ICML 2021, arXiv 2102.06171: λ = .01 for a batch of 4096 with SGD, more for smaller
    ones, and the final linear layer is excluded: name it in ``exclude``. Without a state. Under Adam it bounds the
    gradient and not the update. Transposed convolutions, whose outputs come second, are clipped by their inputs.

    Args:
        exclude: parameters that are left as they are; the reported norms are over them too.
        splits_units: of plain tensors, those whose units ``ranks`` hold parts of (a row-parallel layer).
    """

    name = "agc"

    def __init__(
        self,
        ratio: float = 0.01,
        epsilon: float = 1e-3,
        exclude: Iterable[torch.nn.Parameter] = (),
        ranks: Ranks | None = None,
        splits_units: Callable[[torch.nn.Parameter], bool] = _never,
    ) -> None:
        super().__init__(ranks)
        if not (ratio > 0 and epsilon > 0):
            raise ValueError("AGC needs ratio > 0 and epsilon > 0")
        self._ratio, self._epsilon, self._splits_units = ratio, epsilon, splits_units
        self._excluded = {id(parameter) for parameter in exclude}

    def _fresh(self, norms: torch.Tensor) -> State:
        return {}

    @torch.no_grad()
    def clip(self, parameters: Sequence[torch.nn.Parameter]) -> ClipReport:
        chosen = [each for each in parameters if id(each) not in self._excluded and each.grad is not None]
        left = [each for each in parameters if id(each) in self._excluded]
        units = Units(chosen, self._ranks, self._splits_units, parameters[0].device)
        spread = parameters if self._ranks.add_up is not None or any(map(is_sharded, parameters)) else None
        rest = local_norms(left) if left else units.gradients[:0]
        before = self._norm(spread, torch.cat([units.gradients, rest]))
        bound = self._ratio * self._factor.value
        scales = bound * units.weights.clamp(min=self._epsilon) / units.gradients.clamp(min=1e-6)
        scales = torch.where(torch.isfinite(before), scales.clamp(max=1.0), 1.0)
        units.scale(scales)
        after = self._norm(spread, torch.cat([units.gradients * scales, rest]))
        return ClipReport(before, after, torch.full_like(before, bound), (scales < 1.0).sum())

    def _norm(self, spread: Sequence[torch.nn.Parameter] | None, norms: torch.Tensor) -> torch.Tensor:
        """Of all gradients as they are now: measured where ranks hold parts, else from ``norms`` of all pieces."""
        if spread is not None:
            return global_norm(spread, self._ranks)
        norm: torch.Tensor = torch.linalg.vector_norm(norms)
        return norm
