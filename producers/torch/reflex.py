"""The reflex: a non-finite gradient reaches neither weights nor moments, and no device is waited for.

Selection, never multiplication: NaN times zero is NaN. On the CPU the gradient norm is a value that is already
there, so a bad step is simply not taken. On a device the host must not look, so either the optimizer's own fused
kernels are told to skip (``found_inf``, which they read on the device), or the weights and moments of before are kept
and selected back; step counters that a plain optimizer keeps on the host then count the skipped step, which changes
the bias correction of one step in the run's history and nothing else.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from holter.producers.torch.device_values import host_value
from holter.producers.torch.sharding import is_sharded, local_part


class Reflex:
    """Takes optimizer steps. ``take`` returns whether the step was applied: a bool, or a device flag not yet known."""

    def take(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | None) -> bool | torch.Tensor:
        optimizer.step()
        return True


class HostReflex(Reflex):
    """For optimizers whose gradients lie on the CPU."""

    def take(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | None) -> bool | torch.Tensor:
        if norm is not None and not math.isfinite(host_value(norm)):
            return False
        optimizer.step()
        return True


class ScalerReflex(Reflex):
    """For a gradient scaler, which leaves out by itself what overflowed. What else must not be taken is shown to it
    as an overflow, and taken back before it learns from it: the loss scale has no part in that."""

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler

    def take(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | None) -> bool | torch.Tensor:
        flags = list(self._scaler._found_inf_per_device(optimizer).values())
        if norm is None or not flags or (norm.device.type == "cpu" and math.isfinite(host_value(norm))):
            self._scaler.step(optimizer)
            return flags[0] == 0 if flags else True
        kept = [flag.clone() for flag in flags]
        for flag in flags:
            flag.masked_fill_(torch.isnan(norm).to(flag.device), 1.0)
        applied: torch.Tensor = flags[0] == 0
        self._scaler.step(optimizer)
        for flag, before in zip(flags, kept, strict=True):
            flag.copy_(before)
        return applied


class FusedReflex(Reflex):
    """For fused optimizers: the flag that a gradient scaler would set."""

    def take(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | None) -> bool | torch.Tensor:
        if norm is None:
            return super().take(optimizer, norm)
        flagged: Any = optimizer
        is_finite = torch.isfinite(norm)
        flagged.grad_scale, flagged.found_inf = None, (~is_finite).to(torch.float32)
        try:
            optimizer.step()
        finally:
            del flagged.grad_scale, flagged.found_inf
        return is_finite


class SelectingReflex(Reflex):
    """For any other optimizer on a device; costs a copy of weights and moments."""

    def __init__(self) -> None:
        self._kept: dict[int, torch.Tensor] = {}

    @torch.no_grad()
    def take(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | None) -> bool | torch.Tensor:
        if norm is None:
            return super().take(optimizer, norm)
        is_finite = torch.isfinite(norm)
        before = self._keep(optimizer)
        optimizer.step()
        for key, tensor in _parts(optimizer).items():
            if tensor.device == is_finite.device:
                kept = before.get(key, torch.zeros((), device=tensor.device))
                tensor.copy_(torch.where(is_finite, tensor, kept.to(tensor.dtype)))
        return is_finite

    def _keep(self, optimizer: torch.optim.Optimizer) -> dict[int, torch.Tensor]:
        parts = _parts(optimizer)
        for key, tensor in parts.items():
            kept = self._kept.get(key)
            if kept is None or (kept.shape, kept.dtype, kept.device) != (tensor.shape, tensor.dtype, tensor.device):
                self._kept[key] = torch.empty_like(tensor)
        self._kept = {key: self._kept[key] for key in parts}
        if parts:
            torch._foreach_copy_(list(self._kept.values()), list(parts.values()))
        return self._kept


def make_reflex(optimizer: torch.optim.Optimizer, enabled: bool, scaler: Any | None = None) -> Reflex:
    if scaler is not None:
        return ScalerReflex(scaler)
    if not enabled:
        return Reflex()
    if all(parameter.device.type == "cpu" for group in optimizer.param_groups for parameter in group["params"]):
        return HostReflex()
    whole = not any(is_sharded(parameter) for group in optimizer.param_groups for parameter in group["params"])
    if whole and all(group.get("fused") for group in optimizer.param_groups):
        return FusedReflex()
    return SelectingReflex()


def _parts(optimizer: torch.optim.Optimizer) -> dict[int, torch.Tensor]:
    """Weights and the state that belongs to them, as far as they lie on this rank, by the id of their owner."""
    weights: list[torch.Tensor] = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, torch.Tensor)]
    return {id(owner): local_part(owner) for owner in weights + state}
