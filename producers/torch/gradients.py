"""The gradients of a step: their norm, and the clipping that makes it smaller."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from holter.producers.torch.norms import gradient_norm
from holter.producers.torch.sharded_norms import clip_gradients, global_gradient_norm
from holter.producers.torch.sharding import parts_of


class Gradients:
    """Each of these is whole on this rank."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = parameters

    def norm(self) -> torch.Tensor | None:
        """The L2 norm over all of them; None where there are none."""
        return gradient_norm(self._parameters)

    def clip(self, largest: float) -> torch.Tensor | None:
        """Scales them to this norm where theirs is larger; returns what it was before."""
        return torch.nn.utils.clip_grad_norm_(self._parameters, largest)


class ShardedGradients(Gradients):
    """Every rank has a part; every rank has to ask at the same step."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        super().__init__(parameters)
        self._parts = parts_of(parameters)

    def norm(self) -> torch.Tensor | None:
        return global_gradient_norm(self._parts)

    def clip(self, largest: float) -> torch.Tensor | None:
        norm = global_gradient_norm(self._parts)
        clip_gradients(self._parameters, norm, largest)
        return norm
