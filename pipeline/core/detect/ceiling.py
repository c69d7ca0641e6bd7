"""Values above everything that a run has shown for a thousand records."""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

BLOCK_RECORDS = 16
_NUM_BLOCKS = 64
_LEAST_BLOCKS = 16
_MARGIN = 0.25
"""Of the range that was seen: what a value must be above it."""
_AGAIN, _WITHIN = 3, 4


class CeilingState(Struct):
    tops: bytes = b""
    bottoms: bytes = b""
    above: list[int] = []


class Ceiling:
    """The second largest of the blocks' maxima and a quarter of the range on top: three of four values above it are
    new, whatever the noise, if the run stays where it is. One that falls never comes near it.

    >>> ceiling = Ceiling()
    >>> for _ in range(20):
    ...     ceiling.add([0.0, 1.0])
    >>> ceiling.height, ceiling.is_new(500), ceiling.is_new(501), ceiling.is_new(502)
    (1.25, False, False, True)
    """

    __slots__ = ("_above", "_bottoms", "_tops", "height")

    def __init__(self, state: CeilingState | None = None) -> None:
        kept = state or CeilingState()
        self._tops = deque(_unpack(kept.tops), _NUM_BLOCKS)
        self._bottoms = deque(_unpack(kept.bottoms), _NUM_BLOCKS)
        self._above = list(kept.above)
        self.height = self._height()

    def add(self, block: Sequence[float]) -> None:
        """Takes the values of a block."""
        self._tops.append(array("f", (max(block),))[0])
        self._bottoms.append(array("f", (min(block),))[0])
        self.height = self._height()

    def is_new(self, count: int) -> bool:
        """Takes the number of a record whose value is above; whether enough of the last ones were."""
        self._above = [*self._above[1 - _AGAIN :], count]
        return len(self._above) == _AGAIN and count - self._above[0] < _WITHIN

    def state(self) -> CeilingState:
        return CeilingState(_pack(self._tops), _pack(self._bottoms), list(self._above))

    def clear(self) -> None:
        self._tops.clear()
        self._bottoms.clear()
        self._above.clear()
        self.height = float("inf")

    def _height(self) -> float:
        if len(self._tops) < _LEAST_BLOCKS:
            return float("inf")
        top, bottom = sorted(self._tops)[-2], sorted(self._bottoms)[1]
        return top + _MARGIN * (top - bottom)


def _pack(values: deque[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def _unpack(raw: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(raw) // 4}f", raw)
