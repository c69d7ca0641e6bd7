"""Signals that follow each other closely count once."""

from __future__ import annotations

from collections.abc import Iterable

MERGE_ROWS = 20


def episode_starts(rows: Iterable[int], merge_rows: int = MERGE_ROWS) -> list[int]:
    """Of sorted rows, the first of each group that lies within ``merge_rows`` of that first one.

    >>> episode_starts([3, 4, 23, 24, 40, 90])
    [3, 24, 90]
    """
    starts: list[int] = []
    for row in rows:
        if not starts or row - starts[-1] > merge_rows:
            starts.append(row)
    return starts
