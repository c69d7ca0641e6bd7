"""Mean and standard deviation of the newest values, as most rules take them: not robust to anything."""

from __future__ import annotations

import math
from collections import deque


class RollingMoments:
    """One value that is not finite makes both of them NaN until it has left the window.

    >>> window = RollingMoments(capacity=3)
    >>> for value in [9.0, 1.0, 2.0, 3.0]:
    ...     window.push(value)
    >>> len(window), window.mean(), round(window.sd(), 6)
    (3, 2.0, 1.0)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: deque[float] = deque()
        self._num_not_finite = 0
        self._num_pushed = 0
        self._origin = self._sum = self._squares = 0.0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_full(self) -> bool:
        return len(self._values) == self._capacity

    def push(self, value: float) -> None:
        if self.is_full:
            self._count(self._values.popleft(), -1)
        self._values.append(value)
        self._num_pushed += 1
        if self._num_pushed % self._capacity == 1:
            self._start_again()
        else:
            self._count(value, 1)

    def mean(self) -> float:
        if not self._values or self._num_not_finite:
            return math.nan
        return self._origin + self._sum / len(self._values)

    def sd(self) -> float:
        """With n − 1 in the denominator; NaN for fewer than two values."""
        size = len(self._values)
        if size < 2 or self._num_not_finite:
            return math.nan
        return math.sqrt(max(0.0, self._squares - self._sum * self._sum / size) / (size - 1))

    def _count(self, value: float, sign: int) -> None:
        if not math.isfinite(value):
            self._num_not_finite += sign
            return
        offset = value - self._origin
        self._sum += sign * offset
        self._squares += sign * offset * offset

    def _start_again(self) -> None:
        """Sums anew around a near value, so that rounding does not pile up."""
        self._origin = next((value for value in reversed(self._values) if math.isfinite(value)), 0.0)
        self._sum = self._squares = 0.0
        self._num_not_finite = 0
        for value in self._values:
            self._count(value, 1)
