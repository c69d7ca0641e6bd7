"""Adam's moments, in the batched operations and the order that ``torch.optim.AdamW(foreach=True)`` computes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from holter.producers.torch.device_values import host_value
from holter.producers.torch.sharding import local_part

Group = dict[str, Any]
FIRST = "exp_avg"
SECOND = "exp_avg_sq"


class Tensors(NamedTuple):
    """Of the parameters of a group that have a gradient, this rank's parts, in the same order."""

    parameters: list[torch.nn.Parameter]
    weights: list[torch.Tensor]
    gradients: list[torch.Tensor]


def tensors_of(group: Group) -> Tensors:
    """Raises :class:`ValueError` for sparse gradients."""
    parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
    if any(parameter.grad.is_sparse for parameter in parameters):
        raise ValueError("sparse gradients are not supported: make the embedding with sparse=False")
    gradients = [local_part(parameter.grad) for parameter in parameters]
    return Tensors(parameters, [local_part(parameter) for parameter in parameters], gradients)


def moments_of(state: Mapping[Any, dict[str, Any]], tensors: Tensors) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """First and second moments, this rank's parts, of parameters that have them."""
    first = [local_part(state[parameter][FIRST]) for parameter in tensors.parameters]
    return first, [local_part(state[parameter][SECOND]) for parameter in tensors.parameters]


def learning_rate(group: Group) -> float:
    rate = group["lr"]
    if isinstance(rate, torch.Tensor) and rate.device.type == "cpu":
        return host_value(rate)
    return float(rate)


def update_moments(
    first: list[torch.Tensor], second: list[torch.Tensor], gradients: list[torch.Tensor], betas: tuple[float, float]
) -> None:
    """m ← β1 m + (1 − β1) g, v ← β2 v + (1 − β2) g², in place."""
    torch._foreach_lerp_(first, gradients, 1 - betas[0])
    torch._foreach_mul_(second, betas[1])
    torch._foreach_addcmul_(second, gradients, gradients, 1 - betas[1])


def check_rates(group: Group) -> None:
    """Raises :class:`ValueError` for what Adam cannot run with."""
    beta1, beta2 = group["betas"]
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
        raise ValueError(f"betas {group['betas']} must be at least 0 and below 1")
    if not (float(group["lr"]) >= 0 and group["eps"] >= 0 and group["weight_decay"] >= 0):
        raise ValueError("lr, eps and weight_decay must be at least 0")
