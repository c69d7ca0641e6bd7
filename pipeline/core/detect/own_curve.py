"""Where a run would be if it went on as it did: its levels as a straight line over the logarithm of its records.

Losses fall about as a power of the steps (Hestness et al. 2017, 1712.00409), which over a short stretch is a line in
the logarithm. Levels are kept at records a fixed ratio apart, so that a few of them span most of the run.
"""

from __future__ import annotations

import math

from msgspec import Struct

_SPACING = math.log(1.1)
_NUM_KEPT = 12
_LEAST = 6


class OwnCurve(Struct):
    """Takes levels with the number of the run's records so far; extrapolates them.

    >>> curve = OwnCurve()
    >>> for count in range(16, 400, 8):
    ...     curve.note(count, 5.0 - 0.5 * math.log(count))
    >>> round(curve.expected(800) - (5.0 - 0.5 * math.log(800)), 9)
    0.0
    """

    logs: list[float] = []
    levels: list[float] = []

    def note(self, count: int, level: float) -> None:
        """Takes a level that belongs to the curve; keeps it where it is a ratio later than the last one kept."""
        at = math.log(count)
        if self.logs and at < self.logs[-1] + _SPACING:
            return
        self.logs = [*self.logs, at][-_NUM_KEPT:]
        self.levels = [*self.levels, level][-_NUM_KEPT:]

    def expected(self, count: int) -> float:
        """The level of the line (least squares) at so many records; NaN while too few levels are kept."""
        logs, levels = self.logs, self.levels
        size = len(logs)
        if size < _LEAST:
            return math.nan
        middle, level = sum(logs) / size, sum(levels) / size
        spread = sum((at - middle) ** 2 for at in logs)
        slope = sum((at - middle) * (value - level) for at, value in zip(logs, levels, strict=True)) / spread
        return level + slope * (math.log(count) - middle)
