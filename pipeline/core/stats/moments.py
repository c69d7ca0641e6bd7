"""Mean and variance of a stream."""

from __future__ import annotations

import math

from holter.pipeline.core.stats.stored import StoredForm

LARGEST = 1e150
"""Greater values would overflow when they are squared."""


class Moments:
    """Count, mean and variance in O(1) a value, without the cancellation of a sum of squares.

    Update: Welford 1962, as in Knuth, The Art of Computer Programming 2, 4.2.2; merge: Chan, Golub and LeVeque 1979,
    equation 2.1. Values that are not finite, or beyond 1e150 in size, are left out.

    >>> whole, part = Moments(), Moments()
    >>> for value in (2.0, 4.0, 4.0):
    ...     whole.update(value)
    >>> for value in (6.0, float("nan"), 9.0):
    ...     part.update(value)
    >>> whole.merge(part)
    >>> whole.count, whole.mean, round(whole.variance(), 9)
    (5, 5.0, 7.0)
    >>> whole.revert(9.0)
    >>> whole.mean
    4.0
    """

    __slots__ = ("_squares", "count", "mean")

    _form = StoredForm("moments", 1, "qdd")

    def __init__(self) -> None:
        self.count = 0
        self.mean = math.nan
        """NaN where there are no values."""
        self._squares = 0.0  # sum of squared distances from the mean

    def update(self, value: float) -> None:
        if not -LARGEST <= value <= LARGEST:
            return
        self.count += 1
        if self.count == 1:
            self.mean = value
            return
        delta = value - self.mean
        self.mean += delta / self.count
        self._squares += delta * (value - self.mean)

    def revert(self, value: float) -> None:
        """Takes back a value that was given to ``update`` before, whenever that was."""
        if not -LARGEST <= value <= LARGEST:
            return
        if self.count <= 1:
            self.count, self.mean, self._squares = 0, math.nan, 0.0
            return
        self.count -= 1
        delta = value - self.mean
        self.mean -= delta / self.count
        self._squares = max(0.0, self._squares - delta * (value - self.mean))

    def merge(self, other: Moments) -> None:
        """Takes in all that the other was given."""
        if not other.count:
            return
        if not self.count:
            self.count, self.mean, self._squares = other.count, other.mean, other._squares
            return
        total = self.count + other.count
        delta = other.mean - self.mean
        share = other.count / total
        self.mean += delta * share
        self._squares += other._squares + delta * delta * self.count * share
        self.count = total

    def variance(self) -> float:
        """Unbiased; 0 of one value, NaN of none."""
        if self.count > 1:
            return self._squares / (self.count - 1)
        return 0.0 if self.count else math.nan

    def sd(self) -> float:
        return math.sqrt(self.variance())

    def to_bytes(self) -> bytes:
        return self._form.pack(self.count, self.mean, self._squares)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Moments:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        moments = cls()
        moments.count, moments.mean, moments._squares = cls._form.unpack(raw)
        return moments
