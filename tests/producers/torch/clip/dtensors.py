"""Parameters spread over real processes as FSDP2 and tensor parallelism spread them, beside the whole ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from holter.producers.torch import clip, optim
from tests.producers.torch.clip.gradients import give, parameters

Mesh = tuple[int, ...]
Kind = tuple[str, dict[str, Any]]
SHAPES = ((9, 4), (12, 8), (5,), (3, 3))
ONE_WAY = ((Shard(0),), (Shard(1),), (Shard(0),), (Replicate(),))
"""Rows that do not divide evenly, a split of every row, a bias in parts, and a matrix that all ranks hold."""
TWO_WAYS = ((Shard(0), Shard(1)), (Replicate(), Shard(1)), (Shard(0), Replicate()), (Shard(0), Shard(0)))


class Twins:
    def __init__(self, mesh: Mesh) -> None:
        self._mesh = init_device_mesh("cpu", mesh)
        self._placements = ONE_WAY if len(mesh) == 1 else TWO_WAYS
        self.whole = parameters(SHAPES)
        self.spread = [torch.nn.Parameter(each) for each in self._distributed(self.whole)]

    def give(self, step: int, scale: float = 1.0) -> None:
        give(self.whole, step, scale)
        gradients = [weight.grad.clone() for weight in self.whole if weight.grad is not None]
        for own, gradient in zip(self.spread, self._distributed(gradients), strict=True):
            own.grad = gradient

    def _distributed(self, tensors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        for tensor, placement in zip(tensors, self._placements, strict=True):
            yield distribute_tensor(tensor.detach(), self._mesh, placement)


def clip_both(rank: int, num_ranks: int, folder: Path, mesh: Mesh = (2,), *kinds: Kind) -> None:
    """The reports and the gradients are those of the whole."""
    for name, options in kinds:
        twins, one, other = Twins(mesh), clip.make(name, **options), clip.make(name, **options)
        for step, scale in enumerate((1.0, 1.0, 1.0, 1.0, 60.0, 1.0)):
            twins.give(step, scale)
            here, there = one.clip(twins.whole), other.clip(twins.spread)
            one.commit()
            other.commit()
            for expected, found in zip(here[:3], there[:3], strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
            for weight, part in zip(twins.whole, twins.spread, strict=True):
                torch.testing.assert_close(_whole(part.grad), weight.grad)


def step_both(rank: int, num_ranks: int, folder: Path, mesh: Mesh = (2,), *kinds: Kind) -> None:
    """The weights are those of the whole."""
    for name, options in kinds:
        twins = Twins(mesh)
        one, other = optim.make(name, twins.whole, **options), optim.make(name, twins.spread, **options)
        for step in range(8):
            twins.give(step)
            one.step()
            other.step()
            for weight, part in zip(twins.whole, twins.spread, strict=True):
                torch.testing.assert_close(_whole(part), weight.detach(), rtol=1e-4, atol=1e-6)


def _whole(part: Any) -> torch.Tensor:
    whole: torch.Tensor = part.full_tensor()
    return whole.detach()
