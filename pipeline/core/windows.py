"""Statistics of every metric over windows of 100 steps.

Windows are aligned to the step number, so that stream, batch and replay cut the same ones wherever they begin. Values
are kept until a window's end and all statistics are computed there: per step that costs one append.
"""

from __future__ import annotations

import math
from operator import mul
from typing import TypedDict

from msgspec import Struct

from holter.pipeline.core.stats import ordered
from holter.pipeline.core.stats.rolling import MAD_TO_SD
from holter.pipeline.core.steps import StepRecord
from holter.schemas import record_id, topics
from holter.schemas.windows import WindowStat

WINDOW_STEPS = 100
_BAND_SCALES = 3.0
_EMA_RATE = 2.0 / (WINDOW_STEPS + 1)


class OpenWindow(Struct):
    """The values so far of one (rank, metric), non-finite ones included."""

    steps: list[int]
    values: list[float]
    ema: float = math.nan
    baseline: float = math.nan
    scale: float = math.nan
    """Median and scaled MAD of the last closed window that had a finite value."""


class RankWindows(Struct):
    """The windows of one rank, all over the same 100 step numbers."""

    index: int
    by_metric: dict[str, OpenWindow] = {}


class WindowState(Struct):
    attempt: int = -1
    ranks: dict[str, RankWindows] = {}
    seq: int = 0
    ts: int = 0


class WindowStage:
    """Keeps the open windows of one run's newest attempt."""

    def __init__(self, project: str, run: str, state: WindowState | None = None) -> None:
        self._project = project
        self._run = run
        self.state = state or WindowState()
        self._ranks = {int(rank): windows for rank, windows in self.state.ranks.items()}

    def update(self, record: StepRecord, now: int) -> list[WindowStat]:
        """Takes one step; returns the windows that it completes."""
        attempt, rank, step, ts, seq, _, _, values = record
        state = self.state
        closed = [] if attempt == state.attempt else self._begin_attempt(attempt)
        index, offset = divmod(step, WINDOW_STEPS)
        windows = self._ranks.get(rank) or self._begin_rank(rank, index)
        if windows.index != index:
            closed += self._close_rank(rank, windows)
            windows.index = index
        state.seq, state.ts = seq, ts
        by_metric = windows.by_metric
        for metric, value in values.items():
            window = by_metric.get(metric)
            if window is None:
                window = by_metric[metric] = OpenWindow([], [])
            window.steps.append(step)
            window.values.append(value)
        if offset == WINDOW_STEPS - 1:
            closed += self._close_rank(rank, windows)
        return closed

    def finish(self) -> list[WindowStat]:
        """Closes what is open (the run or the attempt ended)."""
        return [stat for rank, windows in self._ranks.items() for stat in self._close_rank(rank, windows)]

    def _begin_attempt(self, attempt: int) -> list[WindowStat]:
        closed = self.finish()
        self.state.attempt = attempt
        self.state.ranks.clear()
        self._ranks.clear()
        return closed

    def _begin_rank(self, rank: int, index: int) -> RankWindows:
        windows = self._ranks[rank] = self.state.ranks[str(rank)] = RankWindows(index)
        return windows

    def _close_rank(self, rank: int, windows: RankWindows) -> list[WindowStat]:
        return [self._close(rank, metric, window) for metric, window in windows.by_metric.items() if window.steps]

    def _close(self, rank: int, metric: str, window: OpenWindow) -> WindowStat:
        state = self.state
        steps, values = window.steps, window.values
        finite_steps, finite_values = _finite(steps, values)
        window.ema = _ema(window.ema, finite_values)
        description = describe(finite_steps, finite_values)
        identity = (self._project, self._run, state.attempt, rank, metric, steps[0])
        stat = WindowStat(
            id=record_id(topics.WINDOWS.name, *identity),
            project=self._project,
            run=self._run,
            attempt=state.attempt,
            rank=rank,
            metric=metric,
            first_step=steps[0],
            last_step=steps[-1],
            seq=state.seq,
            ts=state.ts,
            count=len(values),
            num_finite=len(finite_values),
            ema=window.ema,
            **description,
            **_band(window, description),
        )
        if finite_values:
            window.baseline, window.scale = description["median"], MAD_TO_SD * description["mad"]
        window.steps, window.values = [], []
        return stat


def _ema(ema: float, values: list[float]) -> float:
    for value in values:
        ema = value if ema != ema else ema + _EMA_RATE * (value - ema)
    return ema


class Band(TypedDict, total=False):
    baseline: float
    band_low: float
    band_high: float
    score: float


def _band(before: OpenWindow, now: Description) -> Band:
    """Where the window before says that values are ordinary, and the farthest of now against it."""
    baseline, scale = before.baseline, before.scale
    if math.isnan(baseline):
        return {}
    width = _BAND_SCALES * scale
    band = Band(baseline=baseline, band_low=baseline - width, band_high=baseline + width)
    above, below = now["max"] - baseline, baseline - now["min"]
    score = (-below if below > above else above) / scale if scale else math.nan
    return band if math.isnan(score) else {**band, "score": score}


class Description(TypedDict):
    sum: float
    mean: float
    sd: float
    min: float
    max: float
    slope: float
    median: float
    mad: float
    p05: float
    p50: float
    p95: float
    p99: float


def describe(steps: list[int], values: list[float]) -> Description:
    """Moments, order statistics and least-squares slope of finite values; all NaN where there are none.

    >>> stats = describe([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    >>> stats["mean"], stats["slope"], stats["median"], stats["mad"], round(stats["sd"], 4)
    (2.5, 1.0, 2.5, 1.0, 1.291)
    """
    count = len(values)
    if not count:
        return _UNKNOWN
    in_order = sorted(values)
    total = math.fsum(values)
    mean = total / count
    deviations = [value - mean for value in values]
    median = ordered.median(in_order)
    return {
        "sum": total,
        "mean": mean,
        "sd": math.sqrt(_dot(deviations, deviations) / (count - 1)) if count > 1 else 0.0,
        "min": in_order[0],
        "max": in_order[-1],
        "slope": _slope(steps, deviations),
        "median": median,
        "mad": ordered.median_absolute_deviation(in_order),
        "p05": ordered.quantile(in_order, 0.05),
        "p50": median,
        "p95": ordered.quantile(in_order, 0.95),
        "p99": ordered.quantile(in_order, 0.99),
    }


_UNKNOWN = Description(
    sum=math.nan, mean=math.nan, sd=math.nan, min=math.nan, max=math.nan, slope=math.nan,
    median=math.nan, mad=math.nan, p05=math.nan, p50=math.nan, p95=math.nan, p99=math.nan,
)  # fmt: skip


def _slope(steps: list[int], deviations: list[float]) -> float:
    middle = sum(steps) / len(steps)
    offsets = [step - middle for step in steps]
    spread = _dot(offsets, offsets)
    return _dot(offsets, deviations) / spread if spread else 0.0


def _dot(left: list[float], right: list[float]) -> float:
    return math.fsum(map(mul, left, right))


def _finite(steps: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    """The steps and values that are finite; the usual case, all of them, is told by the sum."""
    total = sum(values)
    if total - total == 0.0:
        return steps, values
    pairs = [(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]
    return [step for step, _ in pairs], [value for _, value in pairs]
