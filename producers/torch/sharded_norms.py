"""Norms over parameters of which every rank holds a part. Every rank has to measure the same ones at the same step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from holter.producers.torch.device_values import host_value
from holter.producers.torch.norms import UpdateNorm, make_update_norm, norm_of
from holter.producers.torch.sharding import Part, local_part
from holter.schemas.bounds import UpdateNormSource


@torch.no_grad()
def global_gradient_norm(parts: Sequence[Part]) -> torch.Tensor:
    """The L2 norm over all gradients of all ranks, the same on each; one sum over the ranks a part."""
    device = local_part(parts[0].parameters[0]).device
    squares = [part.add_up(_square(_local_gradient_norm(part), device)) for part in parts]
    return torch.stack(squares).sum().sqrt()


class GlobalUpdateNorm(UpdateNorm):
    """Of the local parts, added up over the ranks."""

    def __init__(self, parts: Sequence[Part], source: UpdateNormSource) -> None:
        self.source = source
        self._device = local_part(parts[0].parameters[0]).device
        self._parts = [(part, make_update_norm(_local_parts(part), source)) for part in parts]
        self._sum = torch.zeros((), dtype=torch.float64) if self._device.type == "cpu" else None

    def measure(self) -> torch.Tensor | float:
        return self._measure_on_device() if self._sum is None else self._measure_on_host(self._sum)

    @torch.no_grad()
    def _measure_on_device(self) -> torch.Tensor:
        squares = [
            part.add_up(_square(None if norm is None else norm.measure(), self._device)) for part, norm in self._parts
        ]
        return (squares[0] if len(squares) == 1 else torch.stack(squares).sum()).sqrt()

    def _measure_on_host(self, square: torch.Tensor) -> float:
        """The same in one number, without torch's work for each operation on it."""
        total, host_square = 0.0, square.numpy()
        for part, norm in self._parts:
            moved = 0.0 if norm is None else norm.measure()
            host_square[...] = (host_value(moved) if isinstance(moved, torch.Tensor) else moved) ** 2
            part.add_up(square)
            total += float(host_square)
        return math.sqrt(total)

    def restart(self) -> None:
        for _, norm in self._parts:
            if norm is not None:
                norm.restart()


def _local_gradient_norm(part: Part) -> torch.Tensor | None:
    gradients = [local_part(each.grad) for each in part.parameters if each.grad is not None]
    return norm_of([gradient for gradient in gradients if gradient.numel()])


def _local_parts(part: Part) -> list[torch.Tensor]:
    return [local_part(parameter).detach() for parameter in part.parameters]


def _square(norm: torch.Tensor | float | None, device: torch.device) -> torch.Tensor:
    """In double precision where the device has it: a large norm's square must not become infinite."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    if isinstance(norm, torch.Tensor):
        return norm.to(device, dtype).square()
    return torch.full((), 0.0 if norm is None else norm * norm, dtype=dtype, device=device)
