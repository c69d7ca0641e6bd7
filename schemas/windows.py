"""Statistics of a metric over a window of steps."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from holter.schemas.bounds import Attempt, Count, Id, Metric, Millis, Name, Rank, Step


class WindowStat(Struct, tag_field="record", tag="window_stat", frozen=True):
    """100 consecutive steps of one (run, attempt, rank, metric), fewer where the run ended.

    Non-finite values are counted (``count - num_finite``) and enter nothing else; with no finite value the
    statistics are NaN. ``seq`` is that of the record that closed the window, ``ema`` runs on over the windows of an
    attempt (rate 2 / (100 + 1)), ``slope`` is least squares per step. ``baseline`` is the median of the last window
    before with a finite value, ``band_low`` and ``band_high`` lie three of its scales (1.4826 MAD) around it, and
    ``score`` is how many of them the farthest value is from it, below it negative; None where nothing came before.
    """

    VERSION: ClassVar[int] = 1

    id: Id
    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    metric: Metric
    first_step: Step
    last_step: Step
    seq: Count
    ts: Millis
    count: Count
    num_finite: Count
    sum: float
    mean: float
    sd: float
    min: float
    max: float
    ema: float
    slope: float
    median: float
    mad: float
    p05: float
    p50: float
    p95: float
    p99: float
    baseline: float | None = None
    band_low: float | None = None
    band_high: float | None = None
    score: float | None = None
    v: int = 1
