"""Order statistics of values that lie sorted already."""

from __future__ import annotations

import math
from collections.abc import Sequence


def median(ordered: Sequence[float]) -> float:
    """The middle value, or the mean of the two; NaN where there are none.

    >>> median([1.0, 2.0, 4.0, 8.0])
    3.0
    """
    size = len(ordered)
    if not size:
        return math.nan
    half = size >> 1
    return ordered[half] if size & 1 else 0.5 * (ordered[half - 1] + ordered[half])


def median_absolute_deviation(ordered: Sequence[float]) -> float:
    """The median of |value - median| in O(log n): NaN where there are no values.

    >>> median_absolute_deviation([1.0, 2.0, 4.0, 8.0])
    1.5
    """
    size = len(ordered)
    if not size:
        return math.nan
    middle = median(ordered)
    half = size >> 1
    low = _nearest(ordered, middle, half)
    left, right = middle - ordered[low], ordered[low + half] - middle
    if size & 1:
        return max(left, right)
    # The one before the farthest: the farthest is at an end of those that lie side by side.
    if left > right:
        return 0.5 * (max(middle - ordered[low + 1], right) + left)
    return 0.5 * (max(left, ordered[low + half - 1] - middle) + right)


def _nearest(ordered: Sequence[float], middle: float, k: int) -> int:
    """Where the k + 1 values nearest to ``middle`` begin: they lie side by side in the order."""
    low, high = 0, len(ordered) - k - 1
    while low < high:
        start = (low + high) >> 1
        if middle - ordered[start] > ordered[start + k + 1] - middle:
            low = start + 1
        else:
            high = start
    return low


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between order statistics (Hyndman and Fan 1996, type 7); needs at least one value.

    >>> quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    position = share * (len(ordered) - 1)
    low = int(position)
    if low + 1 == len(ordered):
        return ordered[low]
    return ordered[low] + (position - low) * (ordered[low + 1] - ordered[low])
