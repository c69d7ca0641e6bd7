"""Norms of gradients, whole or per tensor, as float32 device values: nothing here waits for the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.sharding import Part, local_part, parts_of

Parameters = Sequence[torch.nn.Parameter]
NARROW = (torch.float16, torch.bfloat16)
"""Types whose norm would be rounded to three digits, or overflow at 65504."""


def local_gradient(parameter: torch.nn.Parameter) -> torch.Tensor | None:
    """This rank's part of the gradient; None where there is nothing of it."""
    if parameter.grad is None:
        return None
    gradient = local_part(parameter.grad)
    return gradient if gradient.numel() else None


def local_norms(parameters: Parameters) -> torch.Tensor:
    """Shape (num_parameters,): this rank's parts alone, 0 where there is no gradient."""
    gradients = [local_gradient(parameter) for parameter in parameters]
    present = [gradient for gradient in gradients if gradient is not None]
    if not present:
        return torch.zeros(len(parameters), device=_device(parameters))
    dtype = torch.float32 if any(gradient.dtype in NARROW for gradient in present) else None
    norms = list(torch._foreach_norm(present, 2, dtype=dtype))
    device = _device(parameters)
    if any(norm.dtype != torch.float32 or norm.device != device for norm in norms):
        norms = [norm.to(device, torch.float32) for norm in norms]
    if len(present) < len(gradients):
        zero, found = torch.zeros((), device=device), iter(norms)
        norms = [zero if gradient is None else next(found) for gradient in gradients]
    return torch.stack(norms)


def global_norm(parameters: Parameters, ranks: Ranks) -> torch.Tensor:
    """The norm over all gradients of all ranks."""
    parts = parts_of(parameters)
    if ranks.add_up is None and not any(part.groups for part in parts):
        return _vector_norm(local_norms(parameters))
    squares = [part.add_up(_squares(_counted(part, ranks)).sum()) for part in parts]
    total = torch.stack([square.to(squares[0].device) for square in squares]).sum()
    return (total if ranks.add_up is None else ranks.add_up(total)).sqrt().float()


def tensor_norms(parameters: Parameters, ranks: Ranks) -> torch.Tensor:
    """Shape (num_parameters,): of every parameter's whole gradient, whoever holds its parts."""
    spread = [part for part in parts_of(parameters) if part.groups]
    if ranks.add_up is None and not spread:
        return local_norms(parameters)
    squares = dict(zip(map(id, parameters), _squares(parameters).unbind(), strict=True))
    for part in spread:
        _replace(squares, part.parameters, part.add_up(_gathered(squares, part.parameters)))
    if ranks.add_up is not None:
        plain = [each for each in parameters if all(each is not other for part in spread for other in part.parameters)]
        counted = torch.stack([squares[id(each)] * float(ranks.counts(each)) for each in plain])
        _replace(squares, plain, ranks.add_up(counted))
    return _gathered(squares, parameters).sqrt().float()


def _counted(part: Part, ranks: Ranks) -> Parameters:
    return [parameter for parameter in part.parameters if ranks.counts(parameter)]


def _squares(parameters: Parameters) -> torch.Tensor:
    """In double precision where the device has it: a large norm's square must not become infinite."""
    norms = local_norms(parameters)
    return norms.to(torch.float32 if norms.device.type == "mps" else torch.float64).square()


def _gathered(squares: dict[int, torch.Tensor], parameters: Parameters) -> torch.Tensor:
    return torch.stack([squares[id(parameter)] for parameter in parameters])


def _replace(squares: dict[int, torch.Tensor], parameters: Parameters, summed: torch.Tensor) -> None:
    squares.update(zip(map(id, parameters), summed.unbind(), strict=True))


def _vector_norm(norms: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(norms)
    return norm


def _device(parameters: Parameters) -> torch.device:
    return parameters[0].device if parameters else torch.device("cpu")
