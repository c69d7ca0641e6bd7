"""What a fitted detector sees of a record: robust, scale-free, and of this record and earlier ones only."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from holter.pipeline.core.stats.ordered import median
from holter.pipeline.core.stats.rolling import MAD_TO_SD, RollingMedian
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.series import Array

NAMES = (
    "loss z",
    "loss z, second of three",
    "loss z, median of nine",
    "loss rise",
    "loss rise, median of nine",
    "above the best level",
    "gradient z",
    "gradient z, second of three",
    "loss and gradient",
    "not finite",
    "share of large z before",
    "young",
    "flat",
    "loss rise over its record",
    "gradient z over its record",
)
SHORT, LONG, NEW = 15, 128, 9
MAX_Z = 12.0


class Record:
    """The third largest of the maxima of blocks of 8 over the last 1,000: what a run has shown before."""

    def __init__(self) -> None:
        self._blocks: deque[float] = deque(maxlen=125)
        self._newest: list[float] = []
        self.height = math.inf

    def update(self, value: float) -> float:
        """The value over the record so far, at most 3; 0 while there is none."""
        ratio = min(3.0, max(0.0, value) / self.height) if self.height > 0.0 else 0.0
        self._newest.append(value)
        if len(self._newest) == 8:
            self._blocks.append(max(self._newest))
            self._newest.clear()
            self.height = sorted(self._blocks)[-3] if len(self._blocks) >= 6 else math.inf
        return ratio


class Series:
    """Residuals of one metric to a short median, in units of what they usually are."""

    def __init__(self) -> None:
        self._short, self._residuals = RollingMedian(SHORT), RollingMedian(LONG)
        self._num_seen = 0
        self.recent_z: list[float] = []
        self.recent: list[float] = []
        self.num_large = 0.0

    def update(self, value: float) -> float:
        """The z of a finite value; one of more than five scales moves the window by five only."""
        self._num_seen += 1
        base = self._short.median() if len(self._short) else value
        scale = max(MAD_TO_SD * self._residuals.mad() if len(self._residuals) else 0.0, 1e-3 * abs(base), 1e-12)
        residual = value - base
        z = residual / scale if len(self._residuals) >= 8 else 0.0
        clipped = (
            base + math.copysign(min(abs(residual), 5.0 * scale), residual) if len(self._residuals) >= 8 else value
        )
        self._short.push(self._num_seen, clipped)
        self._residuals.push(self._num_seen, clipped - base)
        self.recent_z = [*self.recent_z[-(NEW - 1) :], max(-MAX_Z, min(MAX_Z, z))]
        self.recent = [*self.recent[-(NEW - 1) :], value]
        self.num_large = 0.995 * self.num_large + 0.005 * (z > 4.0)
        return self.recent_z[-1]

    def second_of_three(self) -> float:
        return sorted(self.recent_z[-3:])[-2] if len(self.recent_z) >= 3 else 0.0

    def median_z(self) -> float:
        return median(sorted(self.recent_z)) if self.recent_z else 0.0

    def level(self) -> float:
        return median(sorted(self.recent))

    def base(self) -> float:
        return self._short.median()


def features_of(records: Sequence[StepRecord]) -> Array:
    """A row a record, a column a name of ``NAMES``."""
    return _Run().rows(records)


class _Run:
    def __init__(self) -> None:
        self._loss, self._grad = Series(), Series()
        self._start: list[float] = []
        self._best = math.inf
        self._not_finite = 0.0
        self._rises, self._grad_zs = Record(), Record()

    def rows(self, records: Sequence[StepRecord]) -> Array:
        return np.array([self._row(record, number) for number, record in enumerate(records)])

    def _row(self, record: StepRecord, number: int) -> list[float]:
        loss, grad = record.values.get(LOSS), record.values.get(GRAD_NORM)
        is_bad = any(value is not None and not math.isfinite(value) for value in (loss, grad))
        self._not_finite = 1.0 if is_bad else 0.8 * self._not_finite
        loss_z, rise = self._take_loss(loss) if loss is not None and math.isfinite(loss) else (0.0, 0.0)
        grad_z = self._take_grad(grad) if grad is not None and math.isfinite(grad) else 0.0
        level_rise, above_best = self._level()
        return [
            loss_z,
            self._loss.second_of_three(),
            self._loss.median_z(),
            rise,
            level_rise,
            above_best,
            grad_z,
            self._grad.second_of_three(),
            math.sqrt(max(0.0, loss_z) * max(0.0, grad_z)),
            self._not_finite,
            min(1.0, 10.0 * self._loss.num_large),
            1.0 / (1.0 + number / 50.0),
            self._flatness(),
            self._rises.update(rise),
            self._grad_zs.update(grad_z),
        ]

    def _take_loss(self, loss: float) -> tuple[float, float]:
        if len(self._start) < 5:
            self._start.append(loss)
        base = self._loss.base()
        z = self._loss.update(loss)
        return z, max(-2.0, min(2.0, (loss - base) / self._weight())) if math.isfinite(base) else 0.0

    def _take_grad(self, grad: float) -> float:
        return self._grad.update(math.log(max(grad, 1e-12)))

    def _weight(self) -> float:
        start = median(sorted(self._start))
        return max(abs(self._loss.base()) if self._loss.recent else 0.0, abs(start) / 3.0, 1e-12)

    def _level(self) -> tuple[float, float]:
        if len(self._loss.recent) < NEW:
            return 0.0, 0.0
        level = self._loss.level()
        self._best = min(self._best, level)
        return tuple(max(-2.0, min(2.0, (level - base) / self._weight())) for base in (self._loss.base(), self._best))  # type: ignore[return-value]

    def _flatness(self) -> float:
        recent = self._loss.recent
        if len(recent) < NEW:
            return 0.0
        return 1.0 if max(recent) - min(recent) <= 0.006 * abs(recent[-1]) else 0.0
