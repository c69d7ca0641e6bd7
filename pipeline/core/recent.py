"""The newest losses and gradient norms of the judged rank, whatever they are: evidence, and short-term levels."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from msgspec import Struct

from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS

NUM_RECENT = 16
NUM_JUDGED = 10


class RecentSnapshot(Struct):
    losses: list[float] = []
    grads: list[float] = []
    loss_flags: list[int] = []
    grad_flags: list[int] = []


FINITE, SKIPPED, REACHED = 0, 1, 2
"""A value was finite; it was not, but the optimizer step was skipped; it was not, and may be in the weights."""


class RecentValues:
    """The last 16 of each. Absent values leave no trace, non-finite ones are kept as themselves."""

    __slots__ = ("grad_flags", "grads", "loss_flags", "losses")

    def __init__(self, snapshot: RecentSnapshot | None = None) -> None:
        kept = snapshot or RecentSnapshot()
        self.losses = deque(kept.losses, maxlen=NUM_RECENT)
        self.grads = deque(kept.grads, maxlen=NUM_RECENT)
        self.loss_flags = deque(kept.loss_flags, maxlen=NUM_JUDGED)
        self.grad_flags = deque(kept.grad_flags, maxlen=NUM_JUDGED)

    def update(self, record: StepRecord) -> None:
        values = record.values
        loss = values.get(LOSS)
        if loss is not None:
            self.losses.append(loss)
            self.loss_flags.append(FINITE if loss - loss == 0.0 else (REACHED if record.applied else SKIPPED))
        grad = values.get(GRAD_NORM)
        if grad is not None:
            self.grads.append(grad)
            self.grad_flags.append(FINITE if grad - grad == 0.0 else (REACHED if record.applied else SKIPPED))

    def clear(self) -> None:
        for values in (self.losses, self.grads, self.loss_flags, self.grad_flags):
            values.clear()

    def last_loss(self) -> float:
        return self.losses[-1] if self.losses else math.nan

    def has_finite_loss(self) -> bool:
        """Whether one of the last 10 was."""
        return FINITE in self.loss_flags

    def last_grad_is_finite(self) -> bool:
        return not self.grad_flags or self.grad_flags[-1] == FINITE

    def median_loss(self, count: int) -> float:
        return _finite_median(self.losses, count)

    def median_grad(self, count: int) -> float:
        return _finite_median(self.grads, count)

    def halves(self) -> tuple[float, float]:
        """Medians of the newer and the older half of the kept losses."""
        losses = list(self.losses)
        half = len(losses) // 2
        return _finite_median(deque(losses[half:]), half), _finite_median(deque(losses[:half]), half)

    def extent(self) -> tuple[float, float, float]:
        """Lowest, highest and median of the kept losses; NaN unless all 16 are there and finite."""
        losses = self.losses
        if len(losses) < NUM_RECENT or not math.isfinite(sum(losses)):
            return math.nan, math.nan, math.nan
        return min(losses), max(losses), median(losses)

    def lowest_grad(self) -> float:
        """The lowest of the kept gradient norms: high only where they all are. NaN while not all 16 are there."""
        finite = [grad for grad in self.grads if grad - grad == 0.0]
        return min(finite) if len(self.grads) == NUM_RECENT and finite else math.nan

    def grad_halves(self) -> tuple[float, float]:
        """Medians of the newer and the older half of the kept gradient norms."""
        grads = list(self.grads)
        half = len(grads) // 2
        return _finite_median(deque(grads[half:]), half), _finite_median(deque(grads[:half]), half)

    def num_non_finite_losses(self) -> int:
        """In a row up to now, as far as they are kept."""
        return next((num for num, loss in enumerate(reversed(self.losses)) if loss - loss == 0.0), len(self.losses))

    def has_taken_non_finite(self) -> bool:
        """Whether the optimizer took a step of the last 10 with a loss or a gradient that was not finite."""
        return REACHED in self.loss_flags or REACHED in self.grad_flags

    def loss_reached_weights(self) -> bool:
        return _reached(self.loss_flags) > 0

    def num_grads_reached_weights(self) -> int:
        return _reached(self.grad_flags)

    def snapshot(self) -> RecentSnapshot:
        return RecentSnapshot(list(self.losses), list(self.grads), list(self.loss_flags), list(self.grad_flags))


def _reached(flags: deque[int]) -> int:
    """How many non-finite values may have reached the weights.

    A skipped step keeps them out; ten skipped in a row say that skipping does not help, whatever the weights hold.
    """
    if len(flags) == NUM_JUDGED and FINITE not in flags:
        return NUM_JUDGED
    return sum(flag == REACHED for flag in flags)


def _finite_median(values: deque[float], count: int) -> float:
    """Of the newest ``count`` finite values; NaN where there are none."""
    finite = [value for value in list(values)[-count:] if value - value == 0.0]
    return median(finite) if finite else math.nan
