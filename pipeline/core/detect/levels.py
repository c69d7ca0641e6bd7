"""The levels that a metric has had: one every eight records."""

from __future__ import annotations

import math
import struct
from array import array
from bisect import insort
from collections import deque

from msgspec import Struct

_LAGS = 4
_NUM_LEVELS = 64
_NUM_LATELY = 8
_NUM_RISES = 6
_YOUNG_RECORDS = 256
_LEAST_RISE = 1.2
_FORGETTING_A_BLOCK = 0.999


class LevelState(Struct):
    """Levels are raw little-endian float32."""

    lags: list[float] = []
    rises: list[float] = []
    lowest: float = math.inf
    levels: bytes = b""


class Levels:
    """Where a slow rise counts from, how much of a rise is usual, and which level was not seen for 500 records.

    >>> levels = Levels()
    >>> for level in (3.0, 5.0, 4.0, 3.5, 3.25, 3.25):
    ...     levels.note(level, 1.0, False)
    >>> levels.base(9.0), levels.lowest, levels.highest(), round(levels.rise_limit(300, 1.68), 2)
    (3.25, 3.0, 5.0, 1.53)
    """

    __slots__ = ("_levels", "_rises", "lags", "lowest")

    def __init__(self, state: LevelState | None = None) -> None:
        kept = state or LevelState()
        self.lags = list(kept.lags)
        self._rises = list(kept.rises)
        self.lowest = kept.lowest
        self._levels = deque(struct.unpack(f"<{len(kept.levels) // 4}f", kept.levels), _NUM_LEVELS)

    def note(self, level: float, inverse: float, is_suspended: bool, has_begun: bool = True) -> None:
        """Takes a level; ``inverse`` is one over the scale. The first records are no measure of rises."""
        if has_begun:
            self.lowest = min(self.lowest, level)
            if self.lags and not is_suspended:
                self._note_rise((level - min(self.lags)) * inverse)
        self.lags.append(level)
        del self.lags[:-_LAGS]
        self._levels.append(array("f", (level,))[0])

    def base(self, default: float) -> float:
        """The lowest of the last four."""
        return min(self.lags, default=default)

    def highest(self) -> float:
        """Of the last 512 records; minus infinity where there are none."""
        return max(self._levels, default=-math.inf)

    def highest_lately(self) -> float:
        """Of the last 64 records."""
        return max(list(self._levels)[-_NUM_LATELY:], default=-math.inf)

    def rise_limit(self, num_records: int, margin: float) -> float:
        """How far, in scales, a level may lie above the base; wider while the log is young."""
        rises = self._rises
        usual = rises[-3] if len(rises) > 2 and num_records >= _YOUNG_RECORDS else rises[-1] if rises else 0.0
        return max(_LEAST_RISE, margin * usual + 0.6) * (1.0 + 20.0 / num_records)

    def forget_lags(self) -> None:
        """What comes next is the new level."""
        self.lags.clear()

    def forget(self) -> None:
        """What comes next is in another unit."""
        self.lags.clear()
        self._levels.clear()

    def state(self) -> LevelState:
        levels = struct.pack(f"<{len(self._levels)}f", *self._levels)
        return LevelState(list(self.lags), list(self._rises), self.lowest, levels)

    def _note_rise(self, rise: float) -> None:
        rises = self._rises = [_FORGETTING_A_BLOCK * kept for kept in self._rises]
        insort(rises, rise)
        del rises[:-_NUM_RISES]
