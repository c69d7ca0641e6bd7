"""Statistics of every metric over windows of 100 steps.

Windows are aligned to the step number, so that stream, batch and replay cut the same ones wherever they begin. Values
are kept until a window's end and all statistics are computed there: per step that costs one append.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypedDict

from msgspec import Struct

from holter.pipeline.core.steps import StepRecord
from holter.schemas import record_id, topics
from holter.schemas.windows import WindowStat

WINDOW_STEPS = 100
_EMA_RATE = 2.0 / (WINDOW_STEPS + 1)


class OpenWindow(Struct):
    """The values so far of one (rank, metric), non-finite ones included."""

    steps: list[int]
    values: list[float]
    ema: float = math.nan


class WindowState(Struct):
    attempt: int = -1
    windows: dict[str, OpenWindow] = {}
    """By ``rank:metric``."""
    seq: int = 0
    ts: int = 0


class WindowStage:
    """Keeps the open windows of one run's newest attempt."""

    def __init__(self, project: str, run: str, state: WindowState | None = None) -> None:
        self._project = project
        self._run = run
        self.state = state or WindowState()
        self._keys: dict[tuple[int, str], OpenWindow] = {}

    def update(self, record: StepRecord, now: int) -> list[WindowStat]:
        """Takes one step; returns the windows that it completes."""
        state = self.state
        closed = [] if record.attempt == state.attempt else self._begin_attempt(record.attempt)
        rank, step = record.rank, record.step
        index = step // WINDOW_STEPS
        state.seq, state.ts = record.seq, record.ts
        for metric, value in record.values.items():
            window = self._keys.get((rank, metric)) or self._window(rank, metric)
            if window.steps and window.steps[0] // WINDOW_STEPS != index:
                closed.append(self._close(rank, metric, window))
            window.steps.append(step)
            window.values.append(value)
            if step % WINDOW_STEPS == WINDOW_STEPS - 1:
                closed.append(self._close(rank, metric, window))
        return closed

    def finish(self) -> list[WindowStat]:
        """Closes what is open (the run or the attempt ended)."""
        closed = []
        for key, window in self.state.windows.items():
            rank, _, metric = key.partition(":")
            if window.steps:
                closed.append(self._close(int(rank), metric, window))
        return closed

    def _begin_attempt(self, attempt: int) -> list[WindowStat]:
        closed = self.finish()
        self.state.attempt = attempt
        self.state.windows.clear()
        self._keys.clear()
        return closed

    def _window(self, rank: int, metric: str) -> OpenWindow:
        window = self.state.windows.setdefault(f"{rank}:{metric}", OpenWindow([], []))
        self._keys[rank, metric] = window
        return window

    def _close(self, rank: int, metric: str, window: OpenWindow) -> WindowStat:
        state = self.state
        steps, values = window.steps, window.values
        finite = [(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]
        window.ema = _ema(window.ema, (value for _, value in finite))
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
            num_finite=len(finite),
            ema=window.ema,
            **describe([step for step, _ in finite], [value for _, value in finite]),
        )
        window.steps, window.values = [], []
        return stat


def _ema(ema: float, values: Iterator[float]) -> float:
    for value in values:
        ema = value if ema != ema else ema + _EMA_RATE * (value - ema)
    return ema


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

    Quantiles interpolate linearly between order statistics (Hyndman and Fan 1996, type 7).

    >>> stats = describe([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    >>> stats["mean"], stats["slope"], stats["median"], stats["mad"], round(stats["sd"], 4)
    (2.5, 1.0, 2.5, 1.0, 1.291)
    """
    count = len(values)
    if not count:
        return _UNKNOWN
    ordered = sorted(values)
    total = math.fsum(values)
    mean = total / count
    median = _quantile(ordered, 0.5)
    squares = math.fsum([(value - mean) ** 2 for value in values])
    return {
        "sum": total,
        "mean": mean,
        "sd": math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
        "min": ordered[0],
        "max": ordered[-1],
        "slope": _slope(steps, values, mean),
        "median": median,
        "mad": _quantile(sorted([abs(value - median) for value in values]), 0.5),
        "p05": _quantile(ordered, 0.05),
        "p50": median,
        "p95": _quantile(ordered, 0.95),
        "p99": _quantile(ordered, 0.99),
    }


_UNKNOWN = Description(
    sum=math.nan, mean=math.nan, sd=math.nan, min=math.nan, max=math.nan, slope=math.nan,
    median=math.nan, mad=math.nan, p05=math.nan, p50=math.nan, p95=math.nan, p99=math.nan,
)  # fmt: skip


def _quantile(ordered: list[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    low = int(position)
    if low + 1 == len(ordered):
        return ordered[low]
    return ordered[low] + (position - low) * (ordered[low + 1] - ordered[low])


def _slope(steps: list[int], values: list[float], mean: float) -> float:
    middle = sum(steps) / len(steps)
    spread = math.fsum([(step - middle) ** 2 for step in steps])
    if not spread:
        return 0.0
    return math.fsum([(step - middle) * (value - mean) for step, value in zip(steps, values, strict=True)]) / spread
