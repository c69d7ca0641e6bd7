"""Values that are not numbers, or not finite."""

from __future__ import annotations

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Severity

_INF = float("inf")


class NonFinite:
    """A NaN or an infinity in one of the metrics.

    It is critical where the optimizer step was applied: then it may have reached the weights.
    """

    def __init__(self, metrics: tuple[str, ...]) -> None:
        self._metrics = metrics

    def update(self, record: StepRecord) -> Evidence | None:
        values = record.values
        for metric in self._metrics:
            value = values.get(metric)
            if value is not None and not -_INF < value < _INF:
                severity: Severity = "critical" if record.applied else "warning"
                return Evidence("nan", metric, value, 0.0, _INF, 0.0, severity, record.step)
        return None

    def rewind(self, step: int) -> None:
        pass
