"""Values that are not numbers, or not finite."""

from __future__ import annotations

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Severity
from holter.schemas.telemetry import GRAD_NORM, LOSS, UPDATE_NORM

_INF = float("inf")
_JUDGED = (LOSS, GRAD_NORM, UPDATE_NORM)


def non_finite(record: StepRecord) -> Evidence | None:
    """A NaN or an infinity in one of the judged metrics.

    It is critical where the optimizer step was applied: then it may have reached the weights.
    """
    values = record.values
    for metric in _JUDGED:
        value = values.get(metric)
        if value is not None and value - value != 0.0:
            severity: Severity = "critical" if record.applied else "warning"
            return Evidence("nan", metric, value, 0.0, _INF, 0.0, severity, record.step)
    return None
