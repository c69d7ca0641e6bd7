"""Signals of what a trainer's own reflex did: it acts at once and alone, and says so as an event of the run."""

from __future__ import annotations

from holter.pipeline.core.incidents import Incident
from holter.schemas import record_id, topics
from holter.schemas.signals import Signal
from holter.schemas.telemetry import BadGradient, RunEvent


def worker_signal(record: RunEvent, bad: BadGradient, incident: Incident | None, evidence: list[float]) -> Signal:
    """A word about the open incident; without one, the whole of an incident that is over."""
    own = record_id(topics.SIGNALS.name, record.project, record.run, record.attempt, record.rank, "worker", record.step)
    onset = incident.onset_step if incident else record.step
    return Signal(
        id=own,
        project=record.project,
        run=record.run,
        attempt=record.attempt,
        rank=record.rank,
        step=record.step,
        seq=record.seq,
        ts=record.ts,
        kind=bad.kind,
        severity="critical" if bad.was_taken else "warning",
        phase="update" if incident else "close",
        incident=incident.id if incident else own,
        state=incident.state if incident else "recovered",
        onset_step=onset,
        metric=bad.metric,
        value=bad.value,
        baseline=bad.baseline,
        score=bad.score,
        threshold=bad.threshold,
        peak=incident.peak if incident else bad.value,
        num_steps=max(0, record.step - onset),
        evidence=evidence,
        p_recover=incident.p_recover if incident else None,
        explanation=_explain(bad),
        origin="worker",
        live=record.live,
    )


def _explain(bad: BadGradient) -> str:
    what = f"{bad.metric} {bad.value:.4g}"
    if bad.kind == "grad_explosion":
        what += f" is {bad.score:.3g} times its median {bad.baseline:.4g}"
    done = "took the update, having left out as many as it may" if bad.was_taken else "left the update out"
    return f"{what}; the trainer {done} ({bad.num_in_a_row} in a row)"
