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
    if size & 1:
        return kth_distance(ordered, middle, half)
    return 0.5 * (kth_distance(ordered, middle, half - 1) + kth_distance(ordered, middle, half))


def kth_distance(ordered: Sequence[float], middle: float, k: int) -> float:
    """The k-th smallest (from 0) of |value - middle|: the k + 1 nearest values lie side by side in the order."""
    low, high = 0, len(ordered) - k - 1
    while low < high:
        start = (low + high) >> 1
        if middle - ordered[start] > ordered[start + k + 1] - middle:
            low = start + 1
        else:
            high = start
    return max(middle - ordered[low], ordered[low + k] - middle)


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
