"""Words about a run that is in no incident: a new level, a standstill, what the learned detector takes for trouble."""

from __future__ import annotations

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.steps import StepRecord
from holter.schemas import record_id, topics
from holter.schemas.bounds import IncidentState
from holter.schemas.signals import Signal


def notice(project: str, run: str, record: StepRecord, found: Evidence, evidence: list[float]) -> Signal:
    """A signal that opens no incident: over as soon as it is said, and of the severity ``info``."""
    own = record_id(topics.SIGNALS.name, project, run, record.attempt, record.rank, found.kind, record.step)
    return Signal(
        id=own,
        project=project,
        run=run,
        attempt=record.attempt,
        rank=record.rank,
        step=record.step,
        seq=record.seq,
        ts=record.ts,
        kind=found.kind,
        severity="info",
        phase="close",
        incident=own,
        state=_state(found),
        onset_step=min(found.onset_step, record.step),
        metric=found.metric,
        value=found.value,
        baseline=found.baseline,
        score=found.score,
        threshold=found.threshold,
        peak=found.value,
        num_steps=max(0, record.step - found.onset_step),
        evidence=evidence,
        explanation=_explain(found),
        live=record.live,
    )


def _state(found: Evidence) -> IncidentState:
    if found.kind == "plateau":
        return "stuck"
    if found.kind == "learned":
        return "spike"
    return "recovered_higher" if found.value > found.baseline else "recovered"


def _explain(found: Evidence) -> str:
    if found.kind == "plateau":
        return f"{found.metric} is no lower than {found.baseline:.4g}, where it was at step {found.onset_step}"
    if found.kind == "learned":
        odds = f"log odds {found.score:.2f}, limit {found.threshold:.2f}"
        return f"it looks like the trouble of labelled runs ({odds}), by {found.rule or 'what runs begin with'}"
    return f"{found.metric} left its level {found.baseline:.4g} for {found.value:.4g} at step {found.onset_step}"
