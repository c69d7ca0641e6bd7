"""Median and median absolute deviation over the newest values of a series."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque

MAD_TO_SD = 1.4826
"""Makes the median absolute deviation of normal noise its standard deviation."""


class RollingMedian:
    """The newest ``capacity`` finite values in order of size, each with the step it came from.

    ``push`` costs O(log w) comparisons and one shift of at most 8 w bytes; ``median`` and ``quantile`` are O(1),
    ``mad`` is O(log w). Empty, they are NaN.

    >>> window = RollingMedian(capacity=5)
    >>> for step, value in enumerate([3.0, 1.0, 2.0, 100.0, 2.5, 2.2]):
    ...     window.push(step, value)
    >>> len(window), window.median(), round(window.mad(), 3)
    (5, 2.2, 0.3)
    >>> window.drop_after(3)
    >>> window.values()
    [1.0, 2.0, 100.0]
    """

    __slots__ = ("_capacity", "_ordered", "_steps", "_values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ordered: list[float] = []
        self._values: deque[float] = deque()
        self._steps: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._ordered)

    def push(self, step: int, value: float) -> None:
        """Takes a finite value; the oldest one leaves when the window is full."""
        if len(self._ordered) == self._capacity:
            self._steps.popleft()
            del self._ordered[bisect_left(self._ordered, self._values.popleft())]
        self._values.append(value)
        self._steps.append(step)
        insort(self._ordered, value)

    def drop_after(self, step: int) -> None:
        """Forgets the values of later steps (a rollback took them back)."""
        while self._steps and self._steps[-1] > step:
            self._steps.pop()
            del self._ordered[bisect_left(self._ordered, self._values.pop())]

    def clear(self) -> None:
        self._ordered.clear()
        self._values.clear()
        self._steps.clear()

    def median(self) -> float:
        ordered = self._ordered
        size = len(ordered)
        if not size:
            return math.nan
        half = size >> 1
        return ordered[half] if size & 1 else 0.5 * (ordered[half - 1] + ordered[half])

    def quantile(self, share: float) -> float:
        """The value at rank ``share`` of the way through the window, no interpolation."""
        ordered = self._ordered
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan

    def least_spread(self) -> float:
        """The smaller distance of the two quartiles to the median: a lower bound of ``mad`` at O(1)."""
        ordered = self._ordered
        size = len(ordered)
        if not size:
            return math.nan
        middle = self.median()
        quarter = size >> 2
        return min(middle - ordered[quarter], ordered[size - 1 - quarter] - middle)

    def mad(self) -> float:
        """The median of |value - median|, by bisection over the two sorted halves around the median."""
        ordered = self._ordered
        size = len(ordered)
        if not size:
            return math.nan
        middle = self.median()
        if size & 1:
            return self._kth_distance(middle, size >> 1)
        half = size >> 1
        return 0.5 * (self._kth_distance(middle, half - 1) + self._kth_distance(middle, half))

    def _kth_distance(self, middle: float, k: int) -> float:
        """The k-th smallest (from 0) of |value - middle|: the k+1 nearest values lie side by side in the order."""
        ordered = self._ordered
        low, high = 0, len(ordered) - k - 1
        while low < high:
            start = (low + high) >> 1
            if middle - ordered[start] > ordered[start + k + 1] - middle:
                low = start + 1
            else:
                high = start
        return max(middle - ordered[low], ordered[low + k] - middle)

    def values(self) -> list[float]:
        """Oldest first."""
        return list(self._values)

    def steps(self) -> list[int]:
        return list(self._steps)

    def restore(self, steps: list[int], values: list[float]) -> None:
        self._steps = deque(steps)
        self._values = deque(values)
        self._ordered = sorted(values)
