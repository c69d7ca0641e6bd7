"""One value a tensor, the same on all ranks that hold parts of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import distributed

from holter.producers.torch.sharding import parts_of

Reduce = Callable[[torch.Tensor], torch.Tensor]
"""Element-wise over the ranks that hold parts of the same tensors, in the same order."""


def norms_of(tensors: Sequence[torch.Tensor], order: float = 2) -> list[torch.Tensor]:
    """Scalars; 0 of an empty part, which has no largest element."""
    sized = [tensor for tensor in tensors if tensor.numel()]
    found = iter(torch._foreach_norm(sized, order) if sized else ())
    return [next(found) if tensor.numel() else tensor.new_zeros(()) for tensor in tensors]


def stacked(scalars: Sequence[torch.Tensor]) -> torch.Tensor:
    """Shape (num_scalars,), float32, where the first one is."""
    return torch.stack([scalar.to(scalars[0].device, torch.float32) for scalar in scalars])


def agreed(
    values: torch.Tensor,
    parameters: Sequence[torch.nn.Parameter],
    operation: Literal["max", "sum"],
    by_hand: Reduce | None = None,
) -> torch.Tensor:
    """``values``, shape (num_parameters,), over the ranks: of a ``DTensor`` those that it says itself, of plain
    tensors that are parts ``by_hand``. On a device nobody waits for it."""
    for part in parts_of(parameters):
        if part.groups:
            own = {id(parameter) for parameter in part.parameters}
            places = [at for at, parameter in enumerate(parameters) if id(parameter) in own]
            values = _replaced(values, places, part.groups, operation)
    return values if by_hand is None else by_hand(values)


def _replaced(
    values: torch.Tensor, places: list[int], groups: Sequence[distributed.ProcessGroup], operation: str
) -> torch.Tensor:
    pieces = list(values.unbind())
    together = torch.stack([pieces[at] for at in places])
    for group in groups:
        operator = distributed.ReduceOp.MAX if operation == "max" else distributed.ReduceOp.SUM
        distributed.all_reduce(together, op=operator, group=group)
    for at, value in zip(places, together.unbind(), strict=True):
        pieces[at] = value
    return torch.stack(pieces)
