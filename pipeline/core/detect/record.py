"""The highest scores a run has shown by itself: what it did before is no news."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from math import log

NUM_BLOCKS = 128
_YOUNG_MARGIN = 1.3
_LEAST_INDEX = 0.06
_MOST_LARGEST = 16


class BlockRecord:
    """The maxima of the newest 128 blocks of scores, kept as float32.

    >>> record = BlockRecord()
    >>> for score in (1.0, 5.0, 2.0, 3.0):
    ...     record.add(score)
    >>> record.largest(1), record.largest(3), record.largest(9)
    (5.0, 2.0, 0.0)
    """

    __slots__ = ("_capacity", "_ordered", "maxima")

    def __init__(self, maxima: Iterable[float] = (), capacity: int = NUM_BLOCKS) -> None:
        self._capacity = capacity
        self.maxima = deque(maxima)
        self._ordered = sorted(self.maxima)

    def __len__(self) -> int:
        return len(self.maxima)

    def add(self, score: float) -> None:
        score = array("f", (score,))[0]
        if len(self.maxima) == self._capacity:
            del self._ordered[bisect_left(self._ordered, self.maxima.popleft())]
        self.maxima.append(score)
        insort(self._ordered, score)

    def largest(self, rank: int) -> float:
        """The rank-th largest, from 1; 0 where there are fewer."""
        return self._ordered[-rank] if rank <= len(self._ordered) else 0.0

    def limit(self, rate: float, block_records: int) -> float:
        """The score that one record in 1 / rate would exceed if the run went on as it did.

        Weissman (1978) from the k largest block maxima, with a tail index that up to half of them, if they were
        incidents, cannot move: the median of the log-ratios over that of an exponential variable, where Hill (1975)
        takes their mean. While there are few blocks it is the largest, and a margin.
        """
        count = len(self._ordered)
        k = min(_MOST_LARGEST, count // 4)
        if k < 4 or self._ordered[-k] <= 0.0:
            return _YOUNG_MARGIN * self.largest(1)
        base = self._ordered[-k]
        ratios = [log(value / base) for value in self._ordered[-k + 1 :]]
        index = max(_LEAST_INDEX, ratios[(k - 1) >> 1] / log(2.0))
        return base * float((k / (count * block_records * rate)) ** index)

    def to_bytes(self) -> bytes:
        return struct.pack(f"<{len(self.maxima)}f", *self.maxima)


def record_from(raw: bytes) -> BlockRecord:
    """The record of these bytes."""
    return BlockRecord(struct.unpack(f"<{len(raw) // 4}f", raw))
