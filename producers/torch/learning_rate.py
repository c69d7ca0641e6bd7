"""One factor on everything the user configured about the learning rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

MIN_FACTOR = 0.1
MAX_FACTOR = 1.0
_GROUP_RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")
_SCHEDULER_RATES = ("base_lrs", "max_lrs", "min_lrs", "eta_min", "_last_lr")


class LearningRateFactor:
    """Multiplies the rates of an optimizer and of its schedulers, however deep they are chained.

    Schedulers compute the next rate from the last one (recursive form) or from their base rates (closed form); with
    both scaled, and the floors they aim at, either form goes on with the factor in it. The scaled values are part of
    the optimizer's and scheduler's state, so a checkpoint keeps them, and ``factor`` beside them.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any | None = None) -> None:
        self.factor = 1.0
        self._optimizer = optimizer
        self._scheduler = scheduler

    def set(self, factor: float) -> None:
        """Makes every rate ``factor`` times what was configured.

        Raises:
            ValueError: it is outside [.1, 1].
        """
        if not MIN_FACTOR <= factor <= MAX_FACTOR:
            raise ValueError(f"learning-rate factor {factor} is outside [{MIN_FACTOR}, {MAX_FACTOR}]")
        ratio = factor / self.factor
        for group in self._optimizer.param_groups:
            for name in _GROUP_RATES:
                if name in group:
                    group[name] = _scaled(group[name], ratio)
        for scheduler in _flat(self._scheduler, set()):
            for name in _SCHEDULER_RATES:
                if hasattr(scheduler, name):
                    setattr(scheduler, name, _scaled(getattr(scheduler, name), ratio))
        self.factor = factor


def _scaled(rate: Any, ratio: float) -> Any:
    if isinstance(rate, (list, tuple)):
        return type(rate)(_scaled(each, ratio) for each in rate)
    if isinstance(rate, torch.Tensor):  # in place: a captured graph or a fused kernel holds on to it
        with torch.no_grad():
            return rate.mul_(ratio)
    return rate * ratio


def _flat(scheduler: Any | None, seen: set[int]) -> Iterator[Any]:
    if scheduler is None or id(scheduler) in seen:
        return
    seen.add(id(scheduler))
    yield scheduler
    for child in getattr(scheduler, "_schedulers", ()):
        yield from _flat(child, seen)
