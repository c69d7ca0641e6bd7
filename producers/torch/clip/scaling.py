"""Multiplying gradients in place, by scales that the host does not know on a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from holter.producers.torch.clip.norms import local_gradient
from holter.producers.torch.device_values import host_value


def scale_all(parameters: Sequence[torch.nn.Parameter], scale: torch.Tensor) -> None:
    """``scale`` is a scalar."""
    gradients = [gradient for gradient in map(local_gradient, parameters) if gradient is not None]
    if not gradients or (scale.device.type == "cpu" and host_value(scale) == 1.0):
        return
    if all(gradient.device == scale.device for gradient in gradients):
        torch._foreach_mul_(gradients, scale)
    else:
        for gradient in gradients:
            gradient.mul_(scale.to(gradient.device))


def scale_each(parameters: Sequence[torch.nn.Parameter], scales: torch.Tensor) -> None:
    """``scales`` has the shape (num_parameters,)."""
    in_memory = scales.numpy().tolist() if scales.device.type == "cpu" else [0.0] * len(parameters)
    gradients: list[torch.Tensor] = []
    factors: list[torch.Tensor] = []
    for parameter, factor, value in zip(parameters, scales.unbind(), in_memory, strict=True):
        gradient = local_gradient(parameter)
        if gradient is not None and value != 1.0:
            gradients.append(gradient)
            factors.append(factor.to(gradient.device))
    if gradients:
        torch._foreach_mul_(gradients, factors)
