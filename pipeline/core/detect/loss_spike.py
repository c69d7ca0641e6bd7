"""A loss far above its recent level: at once, or again and again."""

from __future__ import annotations

from dataclasses import dataclass

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.exceedances import Exceedances
from holter.pipeline.core.detect.passed_highs import PassedHighs
from holter.pipeline.core.detect.phase import Phase
from holter.pipeline.core.detect.reading import Reading
from holter.schemas.bounds import Severity

_LEAST = 1e-9
_DRIFT_RECORDS = 8
"""High values that belong to the excesses that add up."""


@dataclass(frozen=True)
class LossSpikeSettings:
    """Sizes are shares of what the run has reached and come from (:meth:`Phase.relative`)."""

    score: float = 5.0
    """Two of three records beyond this are a spike."""
    size: float = 0.03
    single_score: float = 4.5
    """In a coarse log one record beyond this is."""
    single_size: float = 0.15
    most_smaller: float = 2.5
    """So many times less will do where it is that many times, and as much again, beyond what is asked below."""
    single_widening: float = 40.0
    """In a young log it takes more: the factor is 1 + this / records."""
    single_beyond: float = 1.64
    """How far it is beyond the run's own scores, times how far beyond its own gaps; one as rare comes by itself"""
    single_certain: float = 12.0
    """where noise has heavy tails; beyond this score that is not asked."""
    company_chance: float = 2e-4
    drift_size: float = 0.05
    high: float = 3.0
    """Scores beyond this are remembered where they led to nothing."""


class LossSpike:
    def __init__(self, metric: str, settings: LossSpikeSettings, seen: Exceedances, passed: PassedHighs) -> None:
        self._metric = metric
        self._settings = settings
        self.seen = seen
        self.passed = passed

    def judge(self, reading: Reading, step: int, count: int, phase: Phase) -> Evidence | None:
        """Says whether a reading, by itself or with those before it, is a spike."""
        if self._lasts(reading, phase) and self.passed.is_news(count, reading.value, _DRIFT_RECORDS):
            excess = reading.drift if reading.drift > 1.0 and reading.rise > 1.0 else 1.0
            return self._evidence(reading, self.seen.first_step(step, count), reading.base, "drift", excess)
        item = self._stands_out(reading, step, count, phase)
        if item is not None and self.passed.is_news(count, reading.value):
            return item
        if reading.score > self._settings.high:
            self.passed.note(count, reading.value)
        return None

    def _stands_out(self, reading: Reading, step: int, count: int, phase: Phase) -> Evidence | None:
        settings = self._settings
        size = phase.relative(reading.value - reading.level, reading.level)
        if self._keeps_company(reading, count, size):
            return self._evidence(reading, self.seen.kept[-1][1], reading.level, "company pair", 1.0)
        if size < settings.size or reading.score <= settings.score or reading.usual_gap <= 1.0 + reading.company:
            return None
        if not phase.is_coarse and reading.value <= reading.lately:
            return None
        is_huge = phase.is_coarse and self._is_huge(reading, count, size)
        if not is_huge and reading.raw <= reading.record:
            return None
        onset, has_lasted = self.seen.add(count, step)
        if has_lasted:
            return self._evidence(reading, onset, reading.level, "pair", reading.raw / max(reading.record, _LEAST))
        if is_huge:
            return self._evidence(reading, onset, reading.level, "single", _over_single(reading))
        return None

    def _lasts(self, reading: Reading, phase: Phase) -> bool:
        """Whether small excesses have added up, or the last values are above all that was seen."""
        least = self._settings.drift_size
        if reading.drift > 1.0 and reading.rise > 1.0:
            return phase.relative(reading.lasting - reading.base, reading.base) >= least
        return reading.is_new and phase.relative(reading.lasting - reading.level, reading.level) >= least

    def _is_huge(self, reading: Reading, count: int, size: float) -> bool:
        settings = self._settings
        score = settings.single_score * (1.0 + settings.single_widening / max(1, count))
        over = _over_single(reading)
        if reading.score <= score or over <= 1.0:
            return False
        beyond = over * reading.usual_gap / settings.single_beyond
        if size < settings.single_size / max(1.0, min(settings.most_smaller, 0.5 * beyond)):
            return False
        return beyond > 1.0 or reading.score > settings.single_certain

    def _keeps_company(self, reading: Reading, count: int, size: float) -> bool:
        """Whether a lesser score right after a spike is too much for chance by what this run does by itself: where high
        scores come in bursts the next one is no chance, unless it is beyond all gaps."""
        settings, kept = self._settings, self.seen.kept
        if not kept or count - kept[-1][0] > 2 or reading.raw <= 3.0 or size < settings.size:
            return False
        chance = 2.0 * reading.chance
        if reading.usual_gap <= 1.0 + reading.company:
            chance = max(chance, reading.company)
        return self.seen.rate(count) * chance <= settings.company_chance

    def _evidence(self, reading: Reading, onset: int, base: float, rule: str, excess: float) -> Evidence:
        severity: Severity = "critical" if reading.score > 30.0 else "warning"
        score, least, rule = reading.score, self._settings.score, f"loss {rule}"
        return Evidence("loss_spike", self._metric, reading.value, base, score, least, severity, onset, rule, excess)


def _over_single(reading: Reading) -> float:
    return reading.raw / max(reading.single_record, _LEAST)
