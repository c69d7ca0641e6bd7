"""Norms of weights and gradients per unit: per output of a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed

from holter.producers.torch.clip.norms import NARROW
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.device_values import host_value
from holter.producers.torch.sharding import Part, is_sharded, local_part


class Units:
    """All units of some parameters, one after the other; all have a gradient, of which this rank's part may be empty.

    Units of which other ranks hold a part get the norm of the whole.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        ranks: Ranks,
        splits_units: Callable[[torch.nn.Parameter], bool],
        device: torch.device,
    ) -> None:
        self._gradients = [local_part(each.grad) for each in parameters if each.grad is not None]
        pairs = [
            torch.stack([unit_norms(local_part(each)), unit_norms(gradient)])
            for each, gradient in zip(parameters, self._gradients, strict=True)
        ]
        self._sizes = [pair.shape[1] for pair in pairs]
        _complete(pairs, parameters, ranks, splits_units)
        together = torch.cat(pairs, dim=1) if pairs else torch.zeros(2, 0, device=device)
        self.weights, self.gradients = together.unbind()
        """Norms, shape (num_units,)."""

    def scale(self, scales: torch.Tensor) -> None:
        """Multiplies every unit's gradient in place; ``scales`` has the shape (num_units,)."""
        for gradient, own in zip(self._gradients, torch.split(scales, self._sizes), strict=True):
            if gradient.numel() and (own.device.type != "cpu" or host_value(own.min()) < 1.0):
                gradient.mul_(own.view(-1, *[1] * (gradient.ndim - 1)) if gradient.ndim > 1 else own.view(()))


def unit_norms(tensor: torch.Tensor) -> torch.Tensor:
    """Shape (num_units,), float32.

    >>> unit_norms(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([5., 2.])
    >>> unit_norms(torch.tensor([3.0, 4.0]))
    tensor([5.])
    """
    places = tuple(range(1, tensor.ndim)) if tensor.ndim > 1 else None
    dtype = torch.float32 if tensor.dtype in NARROW else None
    norms: torch.Tensor = torch.linalg.vector_norm(tensor, dim=places, dtype=dtype)
    return norms.to(torch.float32).view(-1)


def _complete(
    pairs: list[torch.Tensor],
    parameters: Sequence[torch.nn.Parameter],
    ranks: Ranks,
    splits_units: Callable[[torch.nn.Parameter], bool],
) -> None:
    """Adds up the squares of units that ranks hold parts of; whole units need nobody else."""
    split: dict[tuple[distributed.ProcessGroup, ...], list[int]] = {}
    for at, parameter in enumerate(parameters):
        if is_sharded(parameter):
            split.setdefault(_groups(parameter), []).append(at)
    for groups, places in split.items():
        if groups:
            _add_up(pairs, places, Part([], groups).add_up)
    plain = [at for at, each in enumerate(parameters) if not is_sharded(each) and splits_units(each)]
    if ranks.add_up is not None:
        _add_up(pairs, plain, ranks.add_up)


def _add_up(pairs: list[torch.Tensor], places: Sequence[int], add_up: Callable[[torch.Tensor], torch.Tensor]) -> None:
    if not places:
        return
    summed = add_up(torch.cat([pairs[at] for at in places], dim=1).double().square())
    norms = torch.split(summed.sqrt().float(), [pairs[at].shape[1] for at in places], dim=1)
    for at, pair in zip(places, norms, strict=True):
        pairs[at] = pair


def _groups(parameter: Any) -> tuple[distributed.ProcessGroup, ...]:
    """Over which the parts of one unit lie: rows that are spread whole are not split."""
    has_rows, mesh = parameter.ndim > 1, parameter.device_mesh
    return tuple(
        mesh.get_group(at)
        for at, placement in enumerate(parameter.placements)
        if not placement.is_replicate() and not (has_rows and placement.is_shard(0))
    )
