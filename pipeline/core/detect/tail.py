"""How much heavier than normal the upper tail of a run's own scores is."""

from __future__ import annotations

import math

NUM_BINS = 48
_BINS_A_DOUBLING = 6
_NORMAL_QUANTILES = ((0.05, 1.6449), (0.02, 2.0537), (0.01, 2.3263))
_EDGES = tuple(2.0 ** (index / _BINS_A_DOUBLING) for index in range(NUM_BINS + 1))


class TailHistogram:
    """Counts scores above 1 in bins that grow by a sixth of a doubling, up to 256; older scores fade by halving.

    It cannot forget single scores: after a rewind it still holds those of the steps that were taken back.

    >>> tail = TailHistogram()
    >>> for score in [0.5] * 850 + [1.2] * 100 + [12.0] * 50:
    ...     tail.add(score)
    >>> round(tail.factor(), 1)
    6.9
    """

    __slots__ = ("bins", "num_scores")

    def __init__(self, bins: list[int] | None = None, num_scores: int = 0) -> None:
        self.bins = bins or [0] * NUM_BINS
        self.num_scores = num_scores

    def add(self, score: float) -> None:
        self.num_scores += 1
        if score > 1.0:
            self.add_high(score)

    def add_high(self, score: float) -> None:
        """Counts a score above 1 without counting it into the number of all."""
        self.bins[min(NUM_BINS - 1, int(_BINS_A_DOUBLING * math.log2(score)))] += 1

    def fade(self) -> None:
        self.bins = [count >> 1 for count in self.bins]
        self.num_scores >>= 1

    def share_above(self, score: float) -> float:
        """The share of scores in the bins from that of a score (above 1) on; at least what one more would make."""
        first = int(_BINS_A_DOUBLING * math.log2(score)) if score > 1.0 else 0
        return (sum(self.bins[first:]) + 1) / (self.num_scores + 1)

    def factor(self) -> float:
        """The largest ratio of an upper quantile to that of normal noise, at least 1; 1 while too little is known."""
        bins, factor, above = self.bins, 1.0, 0
        wanted = [(share * self.num_scores, normal) for share, normal in _NORMAL_QUANTILES]
        wanted = [pair for pair in wanted if pair[0] >= 5.0]
        for index in range(NUM_BINS - 1, -1, -1):
            if not wanted:
                break
            above += bins[index]
            while wanted and above >= wanted[-1][0]:
                factor = max(factor, _EDGES[index] / wanted.pop()[1])
        return factor
