"""Stable-SPAM: a clip that adapts, gradients of a norm that follows its history, and moments that are reset."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from holter.producers.torch.clip.clipper import Origin
from holter.producers.torch.optim.adam import (
    FIRST,
    SECOND,
    Group,
    Tensors,
    check_rates,
    learning_rate,
    moments_of,
    tensors_of,
    update_moments,
)
from holter.producers.torch.optim.agreed import Reduce, agreed, norms_of, stacked

_HISTORIES = ("largest", "norm", "squared_norm", "num_seen")


class StableSpam(torch.optim.Optimizer):
    """Adam on gradients that three parts prepare, each of which can be left out:

    - AdaClip: T ← θ T + (1 − θ) max|g|, T̂ = T / (1 − θ^t); coordinates with |g| > T̂ become g · T̂ / max|g|;
    - AdaGN: n ← γ1 n + (1 − γ1) ‖g‖, q ← γ2 q + (1 − γ2) ‖g‖², both corrected for their start as T is;
      g ← g / ‖g‖ · n̂ / (√q̂ + ε);
    - MoRet: every ``interval`` steps Adam's moments and its counter start anew.

    All per tensor. Source: Huang et al., "Stable-SPAM", arXiv 2502.17055, with θ .999, γ1 .7, γ2 .9, interval 1000.
    A gradient of 0 stays 0. The histories outlive resets.

    Args:
        largest_over, sum_over: element-wise maximum and sum over the ranks, for plain tensors that are parts of
            others. ``DTensor`` needs none.
    """

    origin: ClassVar[Origin] = "paper"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        theta: float = 0.999,
        gammas: tuple[float, float] = (0.7, 0.9),
        interval: int = 1000,
        ada_clip: bool = True,
        ada_norm: bool = True,
        largest_over: Reduce | None = None,
        sum_over: Reduce | None = None,
    ) -> None:
        if not (0 <= theta < 1 and min(gammas) >= 0 and max(gammas) < 1 and interval >= 0):
            raise ValueError(
                "Stable-SPAM needs theta and gammas of at least 0 and below 1, and interval ≥ 0 (0: never)"
            )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "theta": theta}
        parts = {"gammas": gammas, "interval": interval, "ada_clip": ada_clip, "ada_norm": ada_norm}
        super().__init__(params, {**defaults, **parts, "num_steps": 0, "num_since_reset": 0})
        for group in self.param_groups:
            check_rates(group)
        self._largest_over, self._sum_over = largest_over, sum_over

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for at, saved in state_dict["state"].items():  # which was just cast to the parameters' type
            state, device = self.state[parameters[at]], parameters[at].device
            state.update({name: saved[name].to(device, copy=True) for name in _HISTORIES})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["num_steps"] += 1
            group["num_since_reset"] += 1
            if group["interval"] and group["num_steps"] % group["interval"] == 0:
                self._reset(group)
            tensors = tensors_of(group)
            if tensors.parameters:
                self._step_group(group, tensors)
        return loss

    @torch.no_grad()
    def reset_moments(self, groups: Sequence[int] | None = None) -> None:
        """Starts Adam's moments and counter anew, of these parameter groups or of all; the histories stay."""
        for at, group in enumerate(self.param_groups):
            if groups is None or at in groups:
                self._reset(group)
                group["num_since_reset"] = 0

    def _reset(self, group: Group) -> None:
        group["num_since_reset"] = 1
        moments = [self.state[each][name] for each in group["params"] if each in self.state for name in (FIRST, SECOND)]
        if moments:
            torch._foreach_zero_(moments)

    def _step_group(self, group: Group, tensors: Tensors) -> None:
        for parameter in tensors.parameters:
            if parameter not in self.state:
                self.state[parameter] = _fresh(parameter)
        gradients = self._prepared(group, tensors)
        first, second = moments_of(self.state, tensors)
        update_moments(first, second, gradients, group["betas"])
        (beta1, beta2), count, rate = group["betas"], group["num_since_reset"], learning_rate(group)
        divisors = torch._foreach_sqrt(second)
        torch._foreach_div_(divisors, math.sqrt(1 - beta2**count))
        torch._foreach_add_(divisors, group["eps"])
        torch._foreach_addcdiv_(tensors.weights, first, divisors, -rate / (1 - beta1**count))
        if group["weight_decay"] != 0:
            torch._foreach_mul_(tensors.weights, 1 - rate * group["weight_decay"])

    def _prepared(self, group: Group, tensors: Tensors) -> list[torch.Tensor]:
        """Copies; the parameters' gradients are left as they are."""
        history = {name: [self.state[parameter][name] for parameter in tensors.parameters] for name in _HISTORIES}
        torch._foreach_add_(history["num_seen"], 1.0)
        gradients = tensors.gradients
        if group["ada_clip"]:
            largest = stacked(norms_of(gradients, torch.inf))
            largest = agreed(largest, tensors.parameters, "max", self._largest_over)
            gradients = _clipped(gradients, largest, history, group["theta"])
        if group["ada_norm"]:
            squares = stacked(norms_of(gradients)).square()
            squares = agreed(squares, tensors.parameters, "sum", self._sum_over)
            gradients = _normalised(gradients, squares, history, group)
        return gradients


def _fresh(parameter: torch.nn.Parameter) -> dict[str, torch.Tensor]:
    """Histories are float32 whatever the parameters are."""
    moments = {name: torch.zeros_like(parameter) for name in (FIRST, SECOND)}
    return moments | {name: torch.zeros((), device=parameter.device) for name in _HISTORIES}


def _clipped(
    gradients: list[torch.Tensor], largest: torch.Tensor, history: dict[str, list[torch.Tensor]], theta: float
) -> list[torch.Tensor]:
    average = _follow(history["largest"], largest, theta)
    limits = average / _correction(history["num_seen"], theta)
    scales = torch.where(largest > 0, limits / largest, 1.0)
    return [
        torch.where(gradient.abs() > limit, gradient * scale.to(gradient.dtype), gradient)
        for gradient, limit, scale in zip(gradients, limits, scales, strict=True)
    ]


def _normalised(
    gradients: list[torch.Tensor], squares: torch.Tensor, history: dict[str, list[torch.Tensor]], group: Group
) -> list[torch.Tensor]:
    norms = squares.sqrt()
    gamma1, gamma2 = group["gammas"]
    mean = _follow(history["norm"], norms, gamma1) / _correction(history["num_seen"], gamma1)
    power = _follow(history["squared_norm"], squares, gamma2) / _correction(history["num_seen"], gamma2)
    scales = torch.where(norms > 0, mean / (power.sqrt() + group["eps"]) / norms, 1.0)
    factors = [scale.to(own.dtype) for scale, own in zip(scales, gradients, strict=True)]
    return list(torch._foreach_mul(gradients, factors))


def _follow(series: list[torch.Tensor], values: torch.Tensor, rate: float) -> torch.Tensor:
    """Exponential averages, in place; returns them, shape (num_tensors,)."""
    torch._foreach_lerp_(series, list(values.to(series[0].device).unbind()), 1 - rate)
    return torch.stack(series)


def _correction(num_seen: list[torch.Tensor], rate: float) -> torch.Tensor:
    """1 − rate^n; by ``expm1``, since in float32 the difference would keep three digits at the start."""
    if rate == 0:
        return torch.ones(len(num_seen), device=num_seen[0].device)
    return -torch.expm1(torch.stack(num_seen) * math.log(rate))
