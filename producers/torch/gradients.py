"""The gradient norm of a step where nothing is clipped; a clipper measures its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from holter.producers.torch.norms import gradient_norm
from holter.producers.torch.sharded_norms import global_gradient_norm
from holter.producers.torch.sharding import parts_of


class Gradients:
    """Each of these is whole on this rank."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = parameters

    def norm(self) -> torch.Tensor | None:
        """The L2 norm over all of them; None where there are none."""
        return gradient_norm(self._parameters)


class ShardedGradients(Gradients):
    """Every rank has a part; every rank has to ask at the same step."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        super().__init__(parameters)
        self._parts = parts_of(parameters)

    def norm(self) -> torch.Tensor | None:
        return global_gradient_norm(self._parts)
