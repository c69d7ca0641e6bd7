"""A run's loss curve against that of a finished run of the same recipe: what a slow fault looks like early.

Source: Bergsma et al., "Scaling with Collapse", ICLR 2026, arXiv 2509.25087. With the same schedule of the learning
rate, tokens per parameter and time scale of the weight decay, ℓ(t̂) = L(t̂ T) / L(T) is the same curve for all sizes of
a model, t̂ being the share of the run that is done. Where a run leaves the curve of its reference, something else than
its size is the reason. L(T) of a run that is not finished is what fits the reference best between a quarter and a
half of the run ("early-align").
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SMOOTHED_STEPS = 100
"""Of the moving average over a training loss, as published; of the shorter run, and as large a share of the other."""


class Curve(NamedTuple):
    """Losses at shares of a run, the shares rising strictly."""

    shares: list[float]
    losses: list[float]

    def at(self, share: float) -> float:
        """Between two known points on the line through them; NaN outside.

        >>> Curve([0.0, 0.5], [4.0, 3.0]).at(0.25)
        3.5
        """
        if not self.shares or not self.shares[0] <= share <= self.shares[-1]:
            return math.nan
        after = bisect_left(self.shares, share)
        if self.shares[after] == share:
            return self.losses[after]
        left, right = self.shares[after - 1], self.shares[after]
        part = (share - left) / (right - left)
        return self.losses[after - 1] * (1.0 - part) + self.losses[after] * part


@dataclass(frozen=True)
class DepartureSettings:
    align_from: float = 0.25
    align_to: float = 0.5
    threshold: float = 0.01
    """Of the residual; never below ``num_deviations`` of what it scatters by while it is aligned."""
    num_deviations: float = 4.0
    lasting_share: float = 0.02
    """Of the run: so long the residual stays above the threshold."""
    least_points: int = 5
    """In the part that is aligned."""


class Departure(NamedTuple):
    """
    Attributes:
        final_loss: that the run is expected to end with, if it follows its reference.
        residuals: share of the run and ℓ of the run less ℓ of the reference, from ``align_from`` on.
        threshold: what a residual is held against.
        onset: the share from which on the run is above its reference; None where it is not.
    """

    final_loss: float
    residuals: list[tuple[float, float]]
    threshold: float
    onset: float | None


def curve_of(steps: Sequence[int], losses: Sequence[float], num_steps: int, smoothed_steps: int = 0) -> Curve:
    """Of a run of ``num_steps`` in all. A step that comes again, after a restart, replaces what came after it.

    Args:
        smoothed_steps: each loss becomes the mean of those of the steps before it, this many; 0 leaves them.

    >>> curve_of([1, 2, 3, 2, 4], [4.0, 9.0, 9.0, 2.0, 3.0], 4, smoothed_steps=2)
    Curve(shares=[0.25, 0.5, 1.0], losses=[4.0, 3.0, 3.0])
    """
    kept: list[tuple[int, float]] = []
    for step, loss in zip(steps, losses, strict=True):
        while kept and kept[-1][0] >= step:
            kept.pop()
        if math.isfinite(loss):
            kept.append((step, loss))
    shares, means = [step / num_steps for step, _ in kept], _means(kept, smoothed_steps)
    return Curve(shares, means)


def depart(run: Curve, reference: Curve, settings: DepartureSettings | None = None) -> Departure:
    """Whether and since when the run is above its finished reference.

    Raises:
        ValueError: there is too little of the run where it would be aligned, or the reference does not go that far.
    """
    settings = settings or DepartureSettings()
    scale = 1.0 / reference.losses[-1] if reference.losses and reference.losses[-1] > 0.0 else math.nan
    pairs = [(share, loss, reference.at(share) * scale) for share, loss in zip(*run, strict=True)]
    pairs = [(share, loss, wanted) for share, loss, wanted in pairs if share >= settings.align_from and wanted > 0.0]
    aligned = [(loss, wanted) for share, loss, wanted in pairs if share <= settings.align_to]
    if len(aligned) < settings.least_points or pairs[-1][0] < settings.align_to:
        raise ValueError("the run has to be half done, with several losses between a quarter and a half of it")
    final_loss = math.fsum(loss * loss for loss, _ in aligned) / math.fsum(loss * wanted for loss, wanted in aligned)
    residuals = [(share, loss / final_loss - wanted) for share, loss, wanted in pairs]
    scatter = statistics.pstdev(residual for share, residual in residuals if share <= settings.align_to)
    threshold = max(settings.threshold, settings.num_deviations * scatter)
    return Departure(final_loss, residuals, threshold, _onset(residuals, threshold, settings))


def _onset(residuals: list[tuple[float, float]], threshold: float, settings: DepartureSettings) -> float | None:
    begun: float | None = None
    for share, residual in residuals:
        if residual <= threshold:
            begun = None
        elif begun is None:
            begun = share
        elif share - begun >= settings.lasting_share:
            return begun
    return None


def _means(kept: list[tuple[int, float]], num_steps: int) -> list[float]:
    """Over the newest steps up to each; the sum is taken anew each time it could have drifted."""
    window: deque[tuple[int, float]] = deque()
    means: list[float] = []
    total = 0.0
    for step, loss in kept:
        window.append((step, loss))
        total += loss
        while window[0][0] <= step - max(1, num_steps):
            total -= window.popleft()[1]
        if len(means) % 1000 == 0:
            total = math.fsum(value for _, value in window)
        means.append(total / len(window))
    return means
