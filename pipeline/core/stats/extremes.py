"""The least and the greatest value, of a whole stream and of its newest values."""

from __future__ import annotations

import math
import struct
from collections import deque

from holter.pipeline.core.stats.stored import StoredForm


class Extremes:
    """Of all values so far; NaN where there are none. Values that are not finite are left out.

    A value that was the extreme cannot be taken back without all others, so there is no ``revert``:
    :class:`RollingExtremes` forgets by age.

    >>> extremes = Extremes()
    >>> for value in (3.0, float("-inf"), 1.0, 2.0):
    ...     extremes.update(value)
    >>> extremes.least, extremes.greatest
    (1.0, 3.0)
    """

    __slots__ = ("greatest", "least")

    _form = StoredForm("extremes", 1, "dd")

    def __init__(self) -> None:
        self.least = math.nan
        self.greatest = math.nan

    def update(self, value: float) -> None:
        if value - value != 0.0:
            return
        # Written so that the first value replaces the NaN.
        if not value >= self.least:
            self.least = value
        if not value <= self.greatest:
            self.greatest = value

    def merge(self, other: Extremes) -> None:
        """Takes in all that the other was given."""
        self.update(other.least)
        self.update(other.greatest)

    def to_bytes(self) -> bytes:
        return self._form.pack(self.least, self.greatest)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Extremes:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        extremes = cls()
        extremes.least, extremes.greatest = cls._form.unpack(raw)
        return extremes


class RollingExtremes:
    """Of the newest ``capacity`` finite values, O(1) amortised.

    Two deques hold, oldest first, the values that may still become the extreme: each new value removes those that it
    outdoes for as long as it lives (Lemire 2006, "Streaming maximum-minimum filter using no more than three
    comparisons per element").

    >>> window = RollingExtremes(capacity=3)
    >>> for value in (9.0, 1.0, 2.0, 3.0):
    ...     window.update(value)
    >>> window.least(), window.greatest()
    (1.0, 3.0)
    """

    __slots__ = ("_capacity", "_falling", "_num_seen", "_rising")

    _form = StoredForm("rolling extremes", 1, "qqII")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._num_seen = 0
        self._rising: deque[tuple[int, float]] = deque()
        self._falling: deque[tuple[int, float]] = deque()

    def __len__(self) -> int:
        return min(self._num_seen, self._capacity)

    def update(self, value: float) -> None:
        if value - value != 0.0:
            return
        self._num_seen += 1
        oldest = self._num_seen - self._capacity
        rising, falling = self._rising, self._falling
        while rising and rising[-1][1] >= value:
            rising.pop()
        while falling and falling[-1][1] <= value:
            falling.pop()
        for candidates in (rising, falling):
            candidates.append((self._num_seen, value))
            if candidates[0][0] <= oldest:
                candidates.popleft()

    def least(self) -> float:
        return self._rising[0][1] if self._rising else math.nan

    def greatest(self) -> float:
        return self._falling[0][1] if self._falling else math.nan

    def to_bytes(self) -> bytes:
        entries = (*self._rising, *self._falling)
        numbers, values = [number for number, _ in entries], [value for _, value in entries]
        head = self._form.pack(self._capacity, self._num_seen, len(self._rising), len(self._falling))
        return head + struct.pack(f"<{len(entries)}q{len(entries)}d", *numbers, *values)

    @classmethod
    def from_bytes(cls, raw: bytes) -> RollingExtremes:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        capacity, num_seen, num_rising, num_falling = cls._form.unpack(raw)
        window = cls(capacity)
        window._num_seen = num_seen
        count = num_rising + num_falling
        fields = cls._form.unpack_more(raw, f"{count}q{count}d")
        entries = list(zip(fields[:count], fields[count:], strict=True))
        window._rising.extend(entries[:num_rising])
        window._falling.extend(entries[num_rising:])
        return window
