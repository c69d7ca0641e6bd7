"""The reflex of a loop that takes the optimizer's step itself: a step that is begun can only be made to do nothing."""

from __future__ import annotations

import math
from typing import Any

import torch

from holter.producers.torch.device_values import host_value


class WithheldSteps:
    """Leaves every step as it is. ``before`` returns whether it will be applied: a bool, or a device flag."""

    can_withhold = False

    def before(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | float | None) -> bool | torch.Tensor:
        return True

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes back what :meth:`before` told the optimizer."""


class WithoutGradients(WithheldSteps):
    """Optimizers pass over weights that have no gradient: neither these nor their moments change."""

    can_withhold = True

    def before(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | float | None) -> bool | torch.Tensor:
        if norm is None or math.isfinite(host_value(norm) if isinstance(norm, torch.Tensor) else norm):
            return True
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = None
        return False


class Flagged(WithheldSteps):
    """Fused optimizers read on the device whether a step is to be taken, as a gradient scaler tells them."""

    can_withhold = True

    def before(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | float | None) -> bool | torch.Tensor:
        if norm is None:
            return True
        flagged: Any = optimizer
        is_finite = torch.isfinite(torch.as_tensor(norm))
        flagged.grad_scale, flagged.found_inf = None, (~is_finite).to(torch.float32)
        return is_finite

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        for name in ("grad_scale", "found_inf"):
            vars(optimizer).pop(name, None)


def make_withheld_steps(optimizer: torch.optim.Optimizer, wanted: bool, scaled: bool) -> WithheldSteps:
    """``scaled``: a gradient scaler skips by itself."""
    if not wanted or scaled:
        return WithheldSteps()
    if all(weight.device.type == "cpu" for group in optimizer.param_groups for weight in group["params"]):
        return WithoutGradients()
    return Flagged() if all(group.get("fused") for group in optimizer.param_groups) else WithheldSteps()
