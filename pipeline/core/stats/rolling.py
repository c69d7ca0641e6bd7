"""Median and median absolute deviation over the newest values of a series."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections import deque

from holter.pipeline.core.stats import ordered
from holter.pipeline.core.stats.stored import StoredForm

MAD_TO_SD = 1.4826
"""Makes the median absolute deviation of normal noise its standard deviation."""


class RollingMedian:
    """The newest ``capacity`` finite values in order of size, each with the step it came from.

    ``push`` costs O(log w) comparisons and one shift of at most 8 w bytes; ``median`` is O(1), ``mad``
    O(log w). Empty, they are NaN. Two heaps or a tree would make the shift O(log w) too, and each of their steps costs
    more in Python than the whole shift up to some thousand values.

    >>> window = RollingMedian(capacity=5)
    >>> for step, value in enumerate([3.0, 1.0, 2.0, 100.0, 2.5, 2.2]):
    ...     window.push(step, value)
    >>> len(window), window.median(), round(window.mad(), 3)
    (5, 2.2, 0.3)
    >>> window.drop_after(3)
    >>> window.values()
    [1.0, 2.0, 100.0]
    """

    __slots__ = ("_capacity", "_steps", "_values", "ordered")

    _form = StoredForm("rolling median", 1, "II")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.ordered: list[float] = []
        """Smallest first; for reading only."""
        self._values: deque[float] = deque()
        self._steps: deque[int] = deque()

    def __len__(self) -> int:
        return len(self.ordered)

    def push(self, step: int, value: float) -> None:
        """Takes a value; the oldest one leaves when the window is full. One that is not finite is left out."""
        if value - value != 0.0:
            return
        in_order, values, steps = self.ordered, self._values, self._steps
        if len(in_order) == self._capacity:
            steps.popleft()
            del in_order[bisect_left(in_order, values.popleft())]
        values.append(value)
        steps.append(step)
        insort(in_order, value)

    def drop_after(self, step: int) -> None:
        """Forgets the values of later steps (a rollback took them back)."""
        while self._steps and self._steps[-1] > step:
            self._steps.pop()
            del self.ordered[bisect_left(self.ordered, self._values.pop())]

    def clear(self) -> None:
        self.ordered.clear()
        self._values.clear()
        self._steps.clear()

    def median(self) -> float:
        return ordered.median(self.ordered)

    def mad(self) -> float:
        """Median absolute deviation."""
        return ordered.median_absolute_deviation(self.ordered)

    def values(self) -> list[float]:
        """Oldest first."""
        return list(self._values)

    def steps(self) -> list[int]:
        return list(self._steps)

    def restore(self, steps: list[int], values: list[float]) -> None:
        self._steps = deque(steps)
        self._values = deque(values)
        self.ordered = sorted(values)

    def to_bytes(self) -> bytes:
        count = len(self._values)
        return self._form.pack(self._capacity, count) + struct.pack(f"<{count}q{count}d", *self._steps, *self._values)

    @classmethod
    def from_bytes(cls, raw: bytes) -> RollingMedian:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        capacity, count = cls._form.unpack(raw)
        fields = cls._form.unpack_more(raw, f"{count}q{count}d")
        window = cls(capacity)
        window.restore(list(fields[:count]), list(fields[count:]))
        return window
