"""A metric's accepted values, and the record of its latest exceedances: what the point rules share."""

from __future__ import annotations

import struct

from msgspec import Struct

from holter.pipeline.core.stats.rolling import RollingMedian


class WindowSnapshot(Struct):
    """Steps and values as raw little-endian int64 and float64."""

    steps: bytes = b""
    values: bytes = b""
    exceedances: list[tuple[int, int]] = []
    num_seen: int = 0
    num_rejected: int = 0


class AcceptedWindow(RollingMedian):
    """The newest values that were taken for ordinary, which later ones are held against.

    A rejected value stays out, so that it cannot move its own reference. A baseline must not be frozen for ever,
    though: after ``max_rejected`` rejected values in a row the window starts again at the new level.
    """

    __slots__ = ("exceedances", "max_rejected", "num_rejected", "num_seen")

    def __init__(self, capacity: int, max_rejected: int, snapshot: WindowSnapshot | None = None) -> None:
        super().__init__(capacity)
        self.max_rejected = max_rejected
        self.exceedances: list[tuple[int, int]] = []
        """(record number, step) of the latest exceedances, newest last, at most three."""
        self.num_seen = 0
        self.num_rejected = 0
        if snapshot is not None:
            self._restore(snapshot)

    def accept(self, step: int, value: float) -> None:
        self.num_seen += 1
        self.num_rejected = 0
        self.push(step, value)

    def reject(self, step: int, value: float) -> None:
        self.num_seen += 1
        self.num_rejected += 1
        if self.num_rejected >= self.max_rejected:
            self.clear()
            self.push(step, value)
            self.num_rejected = 0

    def exceed(self, step: int, within: int) -> int:
        """Notes an exceedance of the next record; returns the step of the first one of the last ``within`` records."""
        oldest = self.num_seen - within
        self.exceedances = [*(kept for kept in self.exceedances if kept[0] > oldest), (self.num_seen, step)]
        return self.exceedances[0][1]

    def rewind(self, step: int) -> None:
        self.drop_after(step)
        self.exceedances.clear()
        self.num_rejected = 0

    def snapshot(self) -> WindowSnapshot:
        steps, values = self.steps(), self.values()
        return WindowSnapshot(
            struct.pack(f"<{len(steps)}q", *steps),
            struct.pack(f"<{len(values)}d", *values),
            list(self.exceedances),
            self.num_seen,
            self.num_rejected,
        )

    def _restore(self, snapshot: WindowSnapshot) -> None:
        count = len(snapshot.steps) // 8
        steps = struct.unpack(f"<{count}q", snapshot.steps)
        self.restore(list(steps), list(struct.unpack(f"<{count}d", snapshot.values)))
        self.exceedances = list(snapshot.exceedances)
        self.num_seen = snapshot.num_seen
        self.num_rejected = snapshot.num_rejected
