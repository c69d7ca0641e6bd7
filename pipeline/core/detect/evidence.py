"""What a detector reports."""

from __future__ import annotations

from typing import NamedTuple

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
    rule: str = ""
    """What spoke: metric and rule; empty where it is never a habit."""
    excess: float = float("inf")
    """The rule's own measure over its limit."""
