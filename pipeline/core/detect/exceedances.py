"""The newest exceedances of a metric: whether they come together, or one by one as they always did."""

from __future__ import annotations

MAX_KEPT = 24
RATE_RECORDS = 256
_PERSISTENCE = ((0.01, 2), (0.029, 3), (0.066, 4), (0.11, 5), (1.0, 6))
"""Up to a rate r of isolated exceedances, k of k + 1 records: the smallest k with (k + 1) r^k <= 1e-4."""


class Exceedances:
    """(record number, step), newest last.

    >>> seen = Exceedances()
    >>> seen.add(10, 100), seen.add(12, 102), seen.add(20, 110)
    ((100, False), (100, True), (110, False))
    """

    __slots__ = ("kept",)

    def __init__(self, kept: list[tuple[int, int]] | None = None) -> None:
        self.kept = kept or []

    def add(self, count: int, step: int) -> tuple[int, bool]:
        """Notes one; returns the step at which its company began, and whether it is too much for chance."""
        kept = self.kept = [*(pair for pair in self.kept if pair[0] > count - RATE_RECORDS), (count, step)][-MAX_KEPT:]
        needed = self._needed(count)
        together = [pair for pair in kept if pair[0] >= count - needed]
        return together[0][1], len(together) >= needed

    def first_step(self, step: int, count: int) -> int:
        """The step of the oldest of the last few records' exceedances, or this one."""
        return next((pair[1] for pair in self.kept if pair[0] > count - 8), step)

    def rate(self, count: int) -> float:
        """The share of records that exceeded, the newest few left out."""
        earlier = sum(pair[0] < count - 6 for pair in self.kept)
        return (earlier + 0.5) / min(RATE_RECORDS, max(64, count))

    def _needed(self, count: int) -> int:
        rate = self.rate(count)
        return next(needed for limit, needed in _PERSISTENCE if rate <= limit)
