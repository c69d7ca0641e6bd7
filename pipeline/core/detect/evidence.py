"""What a detector reports."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Severity, SignalKind


class Evidence(NamedTuple):
    """``value`` against ``baseline``; ``score`` exceeded ``threshold``; the trouble began at ``onset_step``."""

    kind: SignalKind
    metric: str
    value: float
    baseline: float
    score: float
    threshold: float
    severity: Severity
    onset_step: int


class Detector(Protocol):
    def update(self, record: StepRecord) -> Evidence | None:
        """Takes one step of the judged rank; steps increase within an attempt."""

    def rewind(self, step: int) -> None:
        """Forgets what came after a step that the run went back to."""
