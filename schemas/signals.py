"""What the detectors say."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from holter.schemas.bounds import (
    Attempt,
    Count,
    Id,
    IncidentState,
    Metric,
    Millis,
    Name,
    Probability,
    Rank,
    Severity,
    Short,
    SignalKind,
    Step,
    Text,
)

SignalPhase = Literal["open", "update", "close"]


class Signal(Struct, tag_field="record", tag="signal", omit_defaults=True, frozen=True):
    """One word about an incident: that it opens, goes on or closes. A notice (a new level, a standstill) is all of its
    own incident at once, with the severity ``info``.

    ``step`` and ``seq`` name the record that caused it. ``value`` stands against ``baseline``; ``score`` is what the
    rule computed and ``threshold`` what it had to exceed. ``evidence`` are the last values of the metric, oldest
    first. From ``band_low`` to ``band_high`` values of the metric were ordinary at this step. ``features`` are what
    ``p_recover`` was computed from, raw, by name; ``moved`` are the terms of its logit, by feature.
    """

    VERSION: ClassVar[int] = 1

    id: Id
    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    step: Step
    seq: Count
    ts: Millis
    kind: SignalKind
    severity: Severity
    phase: SignalPhase
    incident: Id
    state: IncidentState
    onset_step: Step
    metric: Metric
    value: float
    baseline: float
    score: float
    threshold: float
    peak: float
    num_steps: Count
    """Steps from the onset to this signal."""
    evidence: Annotated[list[float], Meta(max_length=64)] = []
    p_recover: Probability | None = None
    moved: Annotated[dict[Short, float], Meta(max_length=32)] = {}
    explanation: Text = ""
    origin: Literal["watch", "worker"] = "watch"
    live: bool = True
    features: Annotated[dict[Short, float], Meta(max_length=32)] = {}
    band_low: float | None = None
    band_high: float | None = None
    v: int = 1

    @property
    def is_notice(self) -> bool:
        """Whether it belongs to no incident: it says what it says, and calls for nothing."""
        return self.severity == "info" and self.incident == self.id
