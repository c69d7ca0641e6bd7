"""SPAM: Adam that clips spiked coordinates and forgets its moments now and then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, get_args

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
from holter.producers.torch.optim.sparse_moments import Places, drawn_places

Counter = Literal["author", "restarted"]
_MAX_SEED = 2**63
_STRIDE = 1_000_003


class Spam(torch.optim.Optimizer):
    """Per step t, from 1, with k steps since the last reset:

    1. at every ``interval``-th step m, v ← 0, whatever happened, and the sparse positions are drawn anew;
    2. outside the ``grace`` steps at the start and after a reset, a coordinate with g² > θ v becomes sign(g) √(θ v);
    3. m and v are updated;
    4. w ← w − η s √(1 − β2^t) / (1 − β1^t) · m / (√v + ε), where s climbs from .01 to 1 over ``warmup`` steps after
       a reset: s = 1 − .99 · ½ (1 + cos(π k / (warmup + 1)));
    5. w ← w − η · weight_decay · w.

    Source: Huang et al., "SPAM", ICLR 2025, arXiv 2501.06842. It clips *on* detection and resets by the clock; it is
    not "detect a spike, then reset": that is :meth:`reset_moments`, an action of its own.

    Args:
        counter: ``author`` keeps counting t over resets as the authors' code does; fresh moments then make steps too
            large for their correction, about 1.5 times the learning rate in the middle of a cycle, and a coordinate
            that has had no gradient yet (v = 0) is clipped to 0 until the next reset. ``restarted`` counts the
            correction from the reset and leaves coordinates without a history alone.
        density: of parameters with two dimensions or more, the share of coordinates that have moments and move.
    """

    origin: ClassVar[Origin] = "paper"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        threshold: float = 5000.0,
        interval: int = 500,
        warmup: int = 150,
        grace: int = 20,
        density: float = 1.0,
        counter: Counter = "author",
        seed: int = 0,
    ) -> None:
        if counter not in get_args(Counter):
            raise ValueError(f"counter is {' or '.join(get_args(Counter))}, not {counter!r}")
        if not (threshold > 0 and interval >= 1 and warmup >= 0 and grace >= 2 and 0 < density <= 1):
            raise ValueError("SPAM needs threshold > 0, interval ≥ 1, warmup ≥ 0, grace ≥ 2 and 0 < density ≤ 1")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "threshold": threshold}
        timing = {"interval": interval, "warmup": warmup, "grace": grace}
        counts = {"num_steps": 0, "num_since_reset": 0, "num_resets": 0, "num_since_action": None}
        super().__init__(params, {**defaults, **timing, **counts, "density": density, "counter": counter})
        for group in self.param_groups:
            check_rates(group)
        self._seed = seed
        self._places: dict[torch.nn.Parameter, Places] = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        ordinal = 0
        for group in self.param_groups:
            _advance(group)
            if group["num_steps"] % group["interval"] == 0:
                self._reset(group)
            tensors = tensors_of(group)
            if tensors.parameters:
                self._step_group(group, tensors, ordinal)
            ordinal += len(group["params"])
        return loss

    @torch.no_grad()
    def reset_moments(self, cooldown_steps: int = 50, groups: Sequence[int] | None = None) -> bool:
        """Forgets the moments now and climbs back as after a reset by the clock; the report's "reset on detection".

        Of these parameter groups, or of all. Returns whether it did: it does not within ``cooldown_steps`` after it
        last did.
        """
        chosen = [group for at, group in enumerate(self.param_groups) if groups is None or at in groups]
        since = [group["num_since_action"] for group in chosen]
        if any(number is not None and number < cooldown_steps for number in since):
            return False
        for group in chosen:
            self._reset(group)
            group["num_since_reset"], group["num_since_action"] = -1, 0
        return True

    def _reset(self, group: Group) -> None:
        group["num_since_reset"] = 0
        group["num_resets"] += 1
        moments = [self.state[each][name] for each in group["params"] if each in self.state for name in (FIRST, SECOND)]
        if moments:
            torch._foreach_zero_(moments)

    def _step_group(self, group: Group, tensors: Tensors, ordinal: int) -> None:
        places = self._places_of(group, tensors, ordinal)
        first, second = self._moments(tensors, places)
        gradients = [own if at is None else at.read(own) for own, at in zip(tensors.gradients, places, strict=True)]
        if group["num_since_reset"] >= group["grace"]:
            gradients = _clipped(gradients, second, group)
        update_moments(first, second, gradients, group["betas"])
        divisors = torch._foreach_sqrt(second)
        torch._foreach_add_(divisors, group["eps"])
        moved = [own if at is None else at.read(own) for own, at in zip(tensors.weights, places, strict=True)]
        torch._foreach_addcdiv_(moved, first, divisors, -step_size(group))
        for weight, values, at in zip(tensors.weights, moved, places, strict=True):
            if at is not None:
                at.write(weight, values)
        if group["weight_decay"] != 0:
            torch._foreach_mul_(tensors.weights, 1 - learning_rate(group) * group["weight_decay"])

    def _moments(self, tensors: Tensors, places: list[Places | None]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        for parameter, at in zip(tensors.parameters, places, strict=True):
            state = self.state[parameter]
            if not state:
                for name in (FIRST, SECOND):
                    state[name] = torch.zeros_like(parameter) if at is None else parameter.new_zeros(at.number)
        return moments_of(self.state, tensors)

    def _places_of(self, group: Group, tensors: Tensors, ordinal: int) -> list[Places | None]:
        if group["density"] == 1.0:
            return [None] * len(tensors.parameters)
        ordinals = {id(parameter): ordinal + at for at, parameter in enumerate(group["params"])}
        return [
            self._places_in(group, parameter, weight, ordinals[id(parameter)]) if parameter.ndim > 1 else None
            for parameter, weight in zip(tensors.parameters, tensors.weights, strict=True)
        ]

    def _places_in(self, group: Group, parameter: torch.nn.Parameter, weight: torch.Tensor, ordinal: int) -> Places:
        """Drawn by seed, parameter and reset, so that a checkpoint needs no mask."""
        kept = self._places.get(parameter)
        if kept is None or kept.draw != group["num_resets"]:
            seed = ((self._seed * _STRIDE + group["num_resets"]) * _STRIDE + ordinal) % _MAX_SEED
            flat = drawn_places(weight.numel(), group["density"], seed, weight.device)
            kept = self._places[parameter] = Places(group["num_resets"], flat)
        return kept


def warmup_scale(num_since_reset: int, warmup: int) -> float:
    """s of the k-th step after a reset.

    >>> [round(warmup_scale(k, 150), 4) for k in (0, 37, 75, 112, 150)]
    [0.01, 0.1496, 0.4999, 0.8458, 1.0]
    """
    if num_since_reset >= warmup:
        return 1.0
    return 1.0 - 0.99 * 0.5 * (1.0 + math.cos(math.pi * num_since_reset / (warmup + 1)))


def step_size(group: Group) -> float:
    """η s √(1 − β2^t) / (1 − β1^t)."""
    num_steps, position = group["num_steps"], group["num_since_reset"]
    is_reset = group["num_resets"] > 0
    scale = warmup_scale(position, group["warmup"]) if is_reset else 1.0
    counted = position + 1 if is_reset and group["counter"] == "restarted" else num_steps
    beta1, beta2 = group["betas"]
    correction: float = math.sqrt(1 - beta2**counted) / (1 - beta1**counted)
    return learning_rate(group) * scale * correction


def _advance(group: Group) -> None:
    group["num_steps"] += 1
    group["num_since_reset"] += 1
    if group["num_since_action"] is not None:
        group["num_since_action"] += 1


def _clipped(gradients: list[torch.Tensor], second: list[torch.Tensor], group: Group) -> list[torch.Tensor]:
    """g² > θ v becomes sign(g) √(θ v). NaN stays NaN; the parameters' gradients are left as they are."""
    bounds = list(torch._foreach_mul(second, group["threshold"]))
    torch._foreach_sqrt_(bounds)
    if group["counter"] == "restarted":
        bounds = [torch.where(bound > 0, bound, torch.inf) for bound in bounds]
    clipped = torch._foreach_minimum(gradients, bounds)
    torch._foreach_neg_(bounds)
    torch._foreach_maximum_(clipped, bounds)
    return list(clipped)
