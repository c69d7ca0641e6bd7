"""What a report draws of a log: its curves thinned to what an eye can tell apart, their bands, the probability."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from holter.pipeline.core.signals import SignalStage
from holter.pipeline.replay.findings import by_incident
from holter.pipeline.replay.judge import Event
from holter.pipeline.replay.log import Log
from holter.pipeline.replay.table import Column
from holter.schemas.telemetry import GRAD_NORM, LOSS

MAX_POINTS = 4_000
_MAX_DETAIL_ROWS = 1_000
_MARGIN_ROWS = 50
_BAND_SCALES = 3.0
DRAWN_METRICS = (LOSS, GRAD_NORM)


class Curve(NamedTuple):
    """Finite values by row, and the rows of those that are not finite."""

    rows: list[int]
    values: list[float]
    non_finite: list[int]


class Band(NamedTuple):
    """Where values were ordinary, by row."""

    rows: list[int]
    level: list[float]
    low: list[float]
    high: list[float]


@dataclass
class BandSamples:
    """Gathers the stage's own view of a metric while it judges."""

    bands: dict[str, Band] = field(default_factory=lambda: {metric: Band([], [], [], []) for metric in DRAWN_METRICS})

    def take(self, row: int, stage: SignalStage) -> None:
        for metric, band in self.bands.items():
            found = stage.band(metric)
            if found is not None:
                level, low, high = found
                band.rows.append(row)
                band.level.append(level)
                band.low.append(low)
                band.high.append(high)


class Chance(NamedTuple):
    """P(recover) of one incident, by row."""

    incident: str
    rows: list[int]
    values: list[float]


@dataclass(frozen=True)
class Curves:
    """
    Attributes:
        steps: of every row that is named here.
        has_own_axis: whether the steps serve as an axis: they never go back.
    """

    steps: dict[int, int]
    has_own_axis: bool
    by_metric: dict[str, Curve]
    bands: dict[str, Band]
    chances: list[Chance]


def curves_of(log: Log, events: Sequence[Event], bands: BandSamples) -> Curves:
    incidents = by_incident(events)
    spans = [(own[0].row - _MARGIN_ROWS, own[-1].row + _MARGIN_ROWS) for own in incidents.values()]
    by_metric = {metric: _curve(log.metrics[metric], spans) for metric in DRAWN_METRICS if metric in log.metrics}
    chances = [_chance(incident, own) for incident, own in incidents.items()]
    drawn_bands = {metric: band for metric, band in bands.bands.items() if metric in by_metric and band.rows}
    rows = {row for curve in by_metric.values() for row in (*curve.rows, *curve.non_finite)}
    rows.update(row for band in drawn_bands.values() for row in band.rows)
    rows.update(event.row for event in events)
    steps = {row: log.steps[row] for row in rows}
    return Curves(steps, log.is_in_order(), by_metric, drawn_bands, chances)


def thinned(values: Column, num_buckets: int) -> Iterator[int]:
    """The rows of the lowest and the highest finite value of each of so many stretches.

    >>> list(thinned([1.0, 5.0, 2.0, None, 0.0, 3.0], 2))
    [0, 1, 4, 5]
    """
    size = max(1, math.ceil(len(values) / num_buckets))
    for start in range(0, len(values), size):
        finite = [
            (value, row)
            for row, value in enumerate(values[start : start + size], start)
            if value is not None and value - value == 0.0
        ]
        if finite:
            yield from sorted({min(finite)[1], max(finite)[1]})


def _curve(values: Column, spans: Iterable[tuple[int, int]]) -> Curve:
    rows = set(thinned(values, MAX_POINTS // 2))
    for first, last in spans:
        first, last = max(0, first), min(len(values) - 1, last)
        stride = max(1, (last - first) // _MAX_DETAIL_ROWS)
        rows.update(row for row in range(first, last + 1, stride) if _is_finite(values[row]))
    kept = sorted(rows)
    bad = [row for row, value in enumerate(values) if value is not None and not _is_finite(value)]
    return Curve(kept, [value for row in kept if (value := values[row]) is not None], _ends_of_runs(bad))


def _ends_of_runs(rows: list[int]) -> list[int]:
    """Of rows in a row the first and the last, of long runs some between: a log that ends in NaN has many."""
    if len(rows) <= MAX_POINTS // 4:
        return rows
    ends = {rows[0], rows[-1]} | {row for a, b in pairwise(rows) if b > a + 1 for row in (a, b)}
    return sorted(ends | set(rows[:: len(rows) // (MAX_POINTS // 8)]))[:MAX_POINTS]


def _chance(incident: str, events: Iterable[Event]) -> Chance:
    told = [(event.row, event.p_recover) for event in events if event.p_recover is not None]
    return Chance(incident, [row for row, _ in told], [value for _, value in told])


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
