"""One factor on everything the user configured about the learning rate."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch

from holter.producers.torch.ramped_factor import RampedFactor

_GROUP_RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")
_SCHEDULER_RATES = ("base_lrs", "max_lrs", "min_lrs", "delta_lrs", "org_lrs", "eta_min", "_last_lr")
"""Of torch's, and of DeepSpeed's (``delta_lrs``, ``org_lrs``)."""


class LearningRateFactor:
    """Multiplies the rates of an optimizer and of its schedulers, however deep they are chained.

    Schedulers compute the next rate from the last one (recursive form) or from their base rates (closed form); with
    both scaled, and the floors they aim at, either form goes on with the factor in it. The scaled values are part of
    the optimizer's and scheduler's state, so a checkpoint keeps them, and ``factor`` beside them.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any | None = None) -> None:
        self._factor = RampedFactor()
        self._optimizer = optimizer
        self._scheduler = scheduler

    @property
    def factor(self) -> float:
        return self._factor.value

    def set(self, factor: float, ramp_steps: int = 0) -> None:
        """Makes every rate ``factor`` times what was configured, for good or until ``ramp_steps`` later.

        Raises:
            ValueError: it is outside [.1, 1].
        """
        before = self.factor
        self._factor.set(factor, ramp_steps)
        self._scale_rates(factor / before)

    def advance(self) -> None:
        """One optimizer step later, after the scheduler's."""
        if self._factor.is_ramping:
            before = self.factor
            self._scale_rates(self._factor.advance() / before)

    def state(self) -> list[float]:
        return self._factor.state()

    def load(self, state: list[float]) -> None:
        """Beside the rates, which the optimizer and the scheduler have loaded already."""
        self._factor.load(state)

    def _scale_rates(self, ratio: float) -> None:
        scale_rates(self._optimizer, self._scheduler, ratio)


def scale_rates(
    optimizer: torch.optim.Optimizer, scheduler: Any | None, ratio: float, groups: Collection[int] | None = None
) -> None:
    """Multiplies every rate of these parameter groups, or of all. A scheduler's floor that all groups share is scaled
    with all of them only."""
    seen: set[int] = set()
    for at, group in enumerate(optimizer.param_groups):
        if groups is None or at in groups:
            group.update({name: _scaled(group[name], ratio, seen) for name in _GROUP_RATES if name in group})
    for each in _flat(scheduler, set()):
        for name in _SCHEDULER_RATES:
            if hasattr(each, name):
                setattr(each, name, _scaled_of(getattr(each, name), ratio, seen, groups))


def _scaled_of(rates: Any, ratio: float, seen: set[int], groups: Collection[int] | None) -> Any:
    if groups is None:
        return _scaled(rates, ratio, seen)
    if not isinstance(rates, (list, tuple)):
        return rates
    return type(rates)(_scaled(rate, ratio, seen) if at in groups else rate for at, rate in enumerate(rates))


def _scaled(rate: Any, ratio: float, seen: set[int]) -> Any:
    """``seen`` are the tensors that were scaled already: optimizer and scheduler may hold the same one."""
    if isinstance(rate, (list, tuple)):
        return type(rate)(_scaled(each, ratio, seen) for each in rate)
    if not isinstance(rate, torch.Tensor):
        return rate * ratio
    if id(rate) not in seen:  # in place: a captured graph or a fused kernel holds on to it
        seen.add(id(rate))
        with torch.no_grad():
            rate.mul_(ratio)
    return rate


def _flat(scheduler: Any | None, seen: set[int]) -> Iterator[Any]:
    if scheduler is None or id(scheduler) in seen:
        return
    seen.add(id(scheduler))
    yield scheduler
    for child in getattr(scheduler, "_schedulers", ()):
        yield from _flat(child, seen)
