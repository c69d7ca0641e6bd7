"""Loss far above its recent level, in robust standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.window import AcceptedWindow, WindowSnapshot
from holter.pipeline.core.stats.rolling import MAD_TO_SD
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Severity


@dataclass(frozen=True)
class LossSpikeSettings:
    window_steps: int = 101
    min_samples: int = 16
    threshold: float = 6.0
    """Two of three consecutive steps beyond this, in robust standard deviations, are a spike."""
    single_threshold: float = 10.0
    """One step beyond this is."""
    floor_share: float = 0.001
    """The scale is at least this share of the level: quantised or constant logs have no spread of their own."""
    max_rejected: int = 60


class LossSpike:
    """z = (loss - median) / (1.4826 MAD) over the accepted losses, the tested one excluded (Hampel 1974).

    Non-finite losses are another detector's and enter nothing here.
    """

    def __init__(self, metric: str, settings: LossSpikeSettings, snapshot: WindowSnapshot | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self._min_samples = settings.min_samples
        self._limit = settings.threshold * MAD_TO_SD
        self.accepted = AcceptedWindow(settings.window_steps, settings.max_rejected, snapshot)

    def update(self, record: StepRecord) -> Evidence | None:
        value = record.values.get(self._metric)
        if value is None or value - value != 0.0:
            return None
        accepted = self.accepted
        if self._is_ordinary(value, accepted.ordered):
            accepted.accept(record.step, value)
            return None
        return self._judge(record.step, value)

    def rewind(self, step: int) -> None:
        self.accepted.rewind(step)

    def scale(self) -> float:
        """The robust standard deviation of the accepted losses, widened while there are few of them."""
        accepted = self.accepted
        floor = self._settings.floor_share * abs(accepted.median())
        return max(MAD_TO_SD * accepted.mad(), floor, 1e-12) * (1.0 + 4.0 / max(1, len(accepted)))

    def _is_ordinary(self, value: float, ordered: list[float]) -> bool:
        """A cheap sufficient test, O(1): the nearer quartile's distance to the median never exceeds the MAD."""
        size = len(ordered)
        if size < self._min_samples:
            return True
        upper = ordered[size - 1 - (size >> 2)]
        if value <= upper:
            return True
        low, high = ordered[(size - 1) >> 1], ordered[size >> 1]
        spread = min(low - ordered[size >> 2], upper - high)
        return value - low <= self._limit * spread

    def _judge(self, step: int, value: float) -> Evidence | None:
        settings, accepted = self._settings, self.accepted
        baseline = accepted.median()
        score = (value - baseline) / self.scale()
        if score <= settings.threshold:
            accepted.accept(step, value)
            return None
        onset = accepted.exceed(step, within=3)
        accepted.reject(step, value)
        if score <= settings.single_threshold and onset == step:
            return None
        severity: Severity = "critical" if score > 3 * settings.single_threshold else "warning"
        return Evidence("loss_spike", self._metric, value, baseline, score, settings.threshold, severity, onset)
