"""Moments of a random part of a tensor's coordinates."""

from __future__ import annotations

import torch


def drawn_places(num_places: int, density: float, seed: int, device: torch.device) -> torch.Tensor:
    """Distinct flat positions, drawn by ``seed`` alone: a resumed run draws the same on the same kind of device.

    >>> drawn_places(10, 0.3, seed=1, device=torch.device("cpu")).shape
    torch.Size([3])
    """
    generator = torch.Generator(device).manual_seed(seed)
    num_drawn = max(1, round(density * num_places))
    return torch.randperm(num_places, generator=generator, device=device)[:num_drawn]


class Places:
    """Which coordinates of a tensor are updated until the next draw."""

    def __init__(self, draw: int, flat: torch.Tensor) -> None:
        self.draw = draw
        self._flat = flat

    @property
    def number(self) -> int:
        return self._flat.numel()

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Shape (number,)."""
        return tensor.take(self._flat)

    def write(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        tensor.put_(self._flat, values)
