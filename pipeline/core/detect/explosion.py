"""A norm that is a multiple of its recent level, and more than this run has shown by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.exceedances import Exceedances
from holter.pipeline.core.detect.phase import Phase
from holter.pipeline.core.detect.reading import Reading
from holter.pipeline.core.detect.view import MetricView
from holter.schemas.bounds import Severity

_LEAST = 1e-9


@dataclass(frozen=True)
class ExplosionSettings:
    """Ratios are to the median of the last 15 accepted norms; scores are those of the logs."""

    score: float = 4.0
    ratio: float = 3.0
    """Two of three records at this multiple are an explosion."""
    single_ratio: float = 10.0
    """One record at this multiple is."""
    coarse_ratio: float = 6.0
    """The same in a coarse log."""
    drift_ratio: float = 3.0


class Explosion:
    def __init__(
        self,
        kind: Literal["grad_explosion", "update_explosion"],
        metric: str,
        settings: ExplosionSettings,
        seen: Exceedances,
    ) -> None:
        self._kind = kind
        self._metric = metric
        self._settings = settings
        self.seen = seen

    def judge(self, reading: Reading, step: int, count: int, phase: Phase) -> Evidence | None:
        settings = self._settings
        level = reading.level
        ratio = reading.value / level if level > 0.0 else 0.0
        if reading.drift > 1.0 and reading.rise > 1.0 and reading.lasting >= settings.drift_ratio * reading.base:
            return self._evidence(reading, self.seen.first_step(step, count), reading.base, "drift", reading.drift)
        if ratio < settings.ratio or reading.score <= settings.score or reading.usual_gap <= 1.0:
            return None
        single = settings.coarse_ratio if phase.is_coarse else settings.single_ratio
        is_huge = ratio >= single and reading.raw > reading.single_record
        if not is_huge and reading.raw <= reading.record:
            return None
        onset, has_lasted = self.seen.add(count, step)
        if has_lasted:
            return self._evidence(reading, onset, level, "pair", reading.raw / max(reading.record, _LEAST))
        if is_huge:
            return self._evidence(reading, onset, level, "single", reading.raw / max(reading.single_record, _LEAST))
        return None

    def single_limit(self, view: MetricView, phase: Phase) -> float:
        """Above this the next record is an explosion by itself, as :meth:`judge` would say; infinite while young."""
        settings = self._settings
        ratio = settings.coarse_ratio if phase.is_coarse else settings.single_ratio
        return max(ratio * view.level(), view.single_limit(settings.score)) if not view.is_young() else float("inf")

    def _evidence(self, reading: Reading, onset: int, base: float, rule: str, excess: float) -> Evidence:
        ratio = reading.value / base
        severity: Severity = "critical" if ratio >= 10.0 * self._settings.single_ratio else "warning"
        least, rule = self._settings.ratio, f"{self._kind} {rule}"
        return Evidence(self._kind, self._metric, reading.value, base, ratio, least, severity, onset, rule, excess)
