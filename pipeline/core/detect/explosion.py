"""A norm that is a multiple of its recent median."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.window import AcceptedWindow, WindowSnapshot
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Severity


@dataclass(frozen=True)
class ExplosionSettings:
    window_steps: int = 101
    min_samples: int = 16
    ratio: float = 5.0
    """Two of three consecutive steps at this multiple of the median are an explosion."""
    single_ratio: float = 10.0
    """One step at this multiple is."""
    max_rejected: int = 60


class Explosion:
    """norm / median(norm) over the accepted norms, the tested one excluded: an additive rule on the log of the norm.

    Non-finite norms are another detector's and enter nothing here.
    """

    def __init__(
        self,
        kind: Literal["grad_explosion", "update_explosion"],
        metric: str,
        settings: ExplosionSettings,
        snapshot: WindowSnapshot | None = None,
    ) -> None:
        self._kind = kind
        self._metric = metric
        self._settings = settings
        self._min_samples = settings.min_samples
        self._ratio = settings.ratio
        self.accepted = AcceptedWindow(settings.window_steps, settings.max_rejected, snapshot)

    def update(self, record: StepRecord) -> Evidence | None:
        value = record.values.get(self._metric)
        if value is None or value - value != 0.0:
            return None
        accepted = self.accepted
        ordered = accepted.ordered
        size = len(ordered)
        if size < self._min_samples or value <= self._ratio * ordered[(size - 1) >> 1]:  # the lower median
            accepted.accept(record.step, value)
            return None
        return self._judge(record.step, value, accepted.median())

    def rewind(self, step: int) -> None:
        self.accepted.rewind(step)

    def _judge(self, step: int, value: float, median: float) -> Evidence | None:
        settings = self._settings
        score = value / median if median > 0.0 else 0.0
        if score <= settings.ratio:
            self.accepted.accept(step, value)
            return None
        onset = self.accepted.exceed(step, within=3)
        self.accepted.reject(step, value)
        if score < settings.single_ratio and onset == step:
            return None
        severity: Severity = "critical" if score >= 10 * settings.single_ratio else "warning"
        return Evidence(self._kind, self._metric, value, median, score, settings.ratio, severity, onset)
