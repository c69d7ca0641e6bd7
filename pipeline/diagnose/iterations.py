"""A node's events by iteration, and the iteration since which they are not like those before (L4's temporal part)."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from statistics import fmean, pstdev

from holter.pipeline.diagnose.dtw import distance

MAX_ITERATIONS = 128
MAX_EVENTS = 256
_COMPARED_WITH = 16
_FEWEST_BEFORE = 8
_SIGMAS = 3.0
_LEAST_SIGMA = 0.02
_SAME_TROUBLE = 8
"""Deviating iterations at most so far apart are one trouble, which began with the first of them."""


class Track:
    """The last 128 iterations of a node, each with its first 256 events; an event in a row counts once, as in DTW."""

    def __init__(self) -> None:
        self.iterations: deque[tuple[int, array[int]]] = deque(maxlen=MAX_ITERATIONS)

    def begin(self, number: int) -> None:
        """A number that is not higher than the last one begins none: another line of the same step."""
        if not self.iterations or number > self.iterations[-1][0]:
            self.iterations.append((number, array("q")))

    def event(self, identity: int) -> None:
        if not self.iterations:
            return
        events = self.iterations[-1][1]
        if len(events) < MAX_EVENTS and not (events and events[-1] == identity):
            events.append(identity)


@dataclass(frozen=True)
class Departure:
    """``stage``: the last event up to which it went like the earlier iteration most like it; None if at none."""

    iteration: int
    distance: float
    threshold: float
    stage: int | None


def depart(iterations: Sequence[tuple[int, Sequence[int]]]) -> Departure | None:
    """Where the last trouble began: distances beyond 3σ of those of earlier iterations, by DTW to the 16 before.

    Where some hold what no comparable job said, the others do not count: usual events come and go by themselves.
    None where fewer than ten iterations are there, or none is far from those before it.
    """
    sequences = [tuple(events) for _, events in iterations]
    far = _far(sequences)
    if not far:
        return None
    far = [each for each in far if any(event > 0 for event in sequences[each[0]])] or far
    began = len(far) - 1
    while began > 0 and far[began][0] - far[began - 1][0] <= _SAME_TROUBLE:
        began -= 1
    at, how_far, threshold = far[began]
    return Departure(iterations[at][0], how_far, threshold, _stage(sequences[at], _nearest(sequences, at)))


def _far(sequences: Sequence[tuple[int, ...]]) -> list[tuple[int, float, float]]:
    compare = lru_cache(maxsize=None)(distance)
    before: list[float] = []
    far = []
    for at in range(1, len(sequences)):
        least = min(compare(sequences[at], other) for other in sequences[max(0, at - _COMPARED_WITH) : at])
        if len(before) >= _FEWEST_BEFORE:
            threshold = fmean(before) + _SIGMAS * max(pstdev(before), _LEAST_SIGMA)
            if least > threshold:
                far.append((at, least, threshold))
                continue
        before.append(least)
    return far


def _nearest(sequences: Sequence[tuple[int, ...]], at: int) -> tuple[int, ...]:
    return min(sequences[max(0, at - _COMPARED_WITH) : at], key=lambda other: distance(sequences[at], other))


def _stage(events: Sequence[int], usual: Sequence[int]) -> int | None:
    alike = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(events, usual, strict=False))]
    return alike[-1] if alike else None
