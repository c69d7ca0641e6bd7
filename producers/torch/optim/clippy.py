"""Clippy: AdamW whose update is bounded by the weights that it changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from holter.producers.torch.clip.clipper import Origin
from holter.producers.torch.device_values import host_value
from holter.producers.torch.optim.adam import (
    FIRST,
    SECOND,
    Group,
    Tensors,
    learning_rate,
    moments_of,
    tensors_of,
    update_moments,
)
from holter.producers.torch.optim.agreed import Reduce, agreed, norms_of, stacked
from holter.producers.torch.optim.shrink import factor_of


class Clippy(torch.optim.AdamW):
    """Per tensor, with r = m̂ / (√v̂ + ε): σ = min(1, min_i (λ_rel |w_i| + λ_abs) / (η |r_i|)), w ← w − η σ r.

    Clippy bounds the *update*: one scalar a tensor, chosen by its worst coordinate, after the moments and without the
    decoupled weight decay, which is applied before as AdamW does. It does not predict gradients.

    Source: Tang et al., KDD 2023, arXiv 2302.09178. The paper's optimizer is Adagrad (:class:`ClippyAdagrad`); here
    its r is AdamW's. Where nothing exceeds, the weights are bit for bit those of ``AdamW(foreach=True)``. With the
    defaults that is always so while the learning rate stays under ``absolute``: it protects against a learning rate
    that bursts, and not against abnormal gradients, which enter the moments before it acts.

    Args:
        relative: λ_rel; absolute: λ_abs, above 0, which lets weights at zero move.
        largest_over: the element-wise maximum over the ranks, for plain tensors that are parts of others: without
            it each part has its own σ. ``DTensor`` needs none.
    """

    origin: ClassVar[Origin] = "paper"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        relative: float = 0.5,
        absolute: float = 1e-2,
        largest_over: Reduce | None = None,
    ) -> None:
        if not (relative >= 0 and absolute > 0):
            raise ValueError("Clippy needs relative ≥ 0 and absolute > 0")
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=True)
        for group in self.param_groups:
            group.setdefault("relative", relative)
            group.setdefault("absolute", absolute)
        self.defaults.update(relative=relative, absolute=absolute)
        self._largest_over = largest_over
        self.factors: list[torch.Tensor] = []
        """σ of the last step, one tensor a group: shape (number of its parameters with a gradient,)."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.factors = []
        for group in self.param_groups:
            tensors = tensors_of(group)
            if tensors.parameters:
                self.factors.append(self._step_group(group, tensors))
        return loss

    def _step_group(self, group: Group, tensors: Tensors) -> torch.Tensor:
        rate, weights = learning_rate(group), tensors.weights
        steps = [self._next_step(parameter) for parameter in tensors.parameters]
        first, second = moments_of(self.state, tensors)
        if group["weight_decay"] != 0:
            torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
        update_moments(first, second, tensors.gradients, group["betas"])
        beta1, beta2 = group["betas"]
        rates = [-(rate / (1 - beta1**step)) for step in steps]
        divisors = torch._foreach_sqrt(second)
        torch._foreach_div_(divisors, [math.sqrt(1 - beta2**step) for step in steps])
        torch._foreach_add_(divisors, group["eps"])
        factors = self._factors(group, tensors, first, divisors, rates)
        torch._foreach_addcdiv_(weights, _scaled(first, factors), divisors, rates)
        return factors

    def _next_step(self, parameter: torch.nn.Parameter) -> float:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state[FIRST], state[SECOND] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        return host_value(state["step"])

    def _factors(
        self,
        group: Group,
        tensors: Tensors,
        first: list[torch.Tensor],
        divisors: tuple[torch.Tensor, ...],
        rates: list[float],
    ) -> torch.Tensor:
        updates = torch._foreach_div(first, divisors)
        worst = _largest(updates, [abs(rate) / group["absolute"] for rate in rates])
        # No bound is below λ_abs: on the CPU, where it can be read, that mostly spares the rest.
        if worst.device.type != "cpu" or not (worst.numpy() <= 1.0).all():
            bounds = torch._foreach_abs(tensors.weights)
            torch._foreach_mul_(bounds, group["relative"])
            torch._foreach_add_(bounds, group["absolute"])
            torch._foreach_div_(updates, bounds)
            worst = _largest(updates, [abs(rate) for rate in rates])
        return factor_of(agreed(worst, tensors.parameters, "max", self._largest_over))


def _largest(tensors: Sequence[torch.Tensor], scales: list[float]) -> torch.Tensor:
    largest = norms_of(tensors, torch.inf)
    torch._foreach_mul_(largest, scales)
    return stacked(largest)


def _scaled(moments: list[torch.Tensor], factors: torch.Tensor) -> list[torch.Tensor]:
    """New tensors where something is scaled; on a device everywhere, since the host does not know."""
    if factors.device.type == "cpu" and (factors.numpy() == 1.0).all():
        return moments
    return list(torch._foreach_mul(moments, [each.to(own.device) for each, own in zip(factors, moments, strict=True)]))
