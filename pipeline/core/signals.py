"""Detectors and incidents of one run, as a stage: steps in, signals out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.stack import DetectorSettings, DetectorStack, StackState
from holter.pipeline.core.incidents import (
    Baselines,
    Change,
    Incident,
    IncidentSettings,
    IncidentTracker,
    TrackerState,
)
from holter.pipeline.core.notices import notice
from holter.pipeline.core.recent import RecentSnapshot, RecentValues
from holter.pipeline.core.steps import StepRecord
from holter.pipeline.core.vocabulary import uniform_loss, untrained_level
from holter.pipeline.core.worker_signals import worker_signal
from holter.schemas import record_id, topics
from holter.schemas.signals import Signal
from holter.schemas.telemetry import (
    GRAD_NORM,
    LOSS,
    UPDATE_NORM,
    BadGradient,
    BatchSizeChanged,
    DataPhase,
    Event,
    RunEvent,
    Started,
)


@dataclass(frozen=True)
class SignalSettings:
    detectors: DetectorSettings = field(default_factory=DetectorSettings)
    incidents: IncidentSettings = field(default_factory=IncidentSettings)
    update_every_records: int = 25
    """An open incident is spoken of at least this often, and at once when its state or kinds change."""
    update_at_p_change: float = 0.1


class Told(Struct, frozen=True):
    """What was last said of the open incident."""

    state: str = ""
    num_kinds: int = 0
    num_records: int = 0
    p_recover: float = math.nan


class SignalState(Struct):
    detectors: StackState | None = None
    recent: RecentSnapshot | None = None
    tracker: TrackerState | None = None
    told: Told = Told()
    last: tuple[int, int, int, int, int, bool] | None = None
    """Attempt, rank, step, ts, seq and liveness of the last record."""
    uniform_loss: float = math.nan
    """Of the vocabulary that the run's configuration names."""


class SignalStage:
    """Judges the steps of one run's judged rank."""

    def __init__(
        self, project: str, run: str, settings: SignalSettings | None = None, state: SignalState | None = None
    ) -> None:
        self._project = project
        self._run = run
        self._settings = settings or SignalSettings()
        kept = state or SignalState()
        self._detectors = DetectorStack(self._settings.detectors, kept.detectors)
        self.recent = RecentValues(kept.recent)
        self.tracker = IncidentTracker(self._settings.incidents, kept.tracker)
        self._told = kept.told
        self._last = StepRecord(*kept.last[:5], True, kept.last[5], {}) if kept.last else None
        self._uniform_loss = kept.uniform_loss

    def update(self, record: StepRecord, now: int) -> list[Signal]:
        """Takes one step; returns what is to be said of it."""
        self.recent.update(record)
        self._last = record
        tracker = self.tracker
        incident = tracker.state.open
        evidence = self._detectors.update(record, incident.id if incident is not None else "")
        signals = self._begin_run(record) if self._detectors.began_run else []
        if evidence or tracker.state.open is not None:
            signals += self._track(record, evidence)
        elif tracker.state.closed is not None:
            tracker.pass_calm()
        if self._detectors.notices:
            signals += self._notices(record)
        return signals

    def on_event(self, event: Event) -> None:
        """What the trainer says of itself: where a batch size or the data changes, levels begin anew."""
        if isinstance(event, BatchSizeChanged | DataPhase):
            self._detectors.begin_phase()
        elif isinstance(event, Started):
            self._uniform_loss = uniform_loss(event.config)

    def report(self, record: RunEvent, bad: BadGradient) -> Signal:
        """What the trainer's own reflex did."""
        return worker_signal(record, bad, self.tracker.open, list(self.recent.grads))

    def begin_attempt(self, kept_step: int) -> list[Signal]:
        """A new attempt goes on after ``kept_step``; what came later is forgotten, an open incident is over."""
        change = self.tracker.close("rolled_back")
        signals = [self._signal(self._last, change, None)] if change and self._last else []
        self._detectors.rewind(kept_step)
        self.tracker.forget()
        self.recent.clear()
        return signals

    def finish(self) -> list[Signal]:
        """The run ended: an open incident ends as what it looks like."""
        incident = self.tracker.open
        if incident is None or self._last is None:
            return []
        change = self.tracker.close("recovered_higher" if incident.p_recover >= 0.5 else "lost")
        return [self._signal(self._last, change, None)] if change else []

    @property
    def incident(self) -> Incident | None:
        """The open one."""
        return self.tracker.state.open

    def band(self, metric: str) -> tuple[float, float, float] | None:
        """Level of a judged metric, and from where to where its values are ordinary; None while that is not known."""
        return self._detectors.band(metric)

    @property
    def learned_features(self) -> list[float]:
        """What the learned detector saw of the last record; empty where it is off."""
        return self._detectors.learned.features if self._detectors.learned is not None else []

    def is_outside_band(self, incident: Incident) -> bool:
        """Whether the level of the loss is above the incident's band."""
        return incident.is_outside(self.recent.median_loss(9), self._settings.incidents.band_scales)

    def state(self) -> SignalState:
        last = self._last
        return SignalState(
            self._detectors.state(),
            self.recent.snapshot(),
            self.tracker.state,
            self._told,
            (last.attempt, last.rank, last.step, last.ts, last.seq, last.live) if last else None,
            self._uniform_loss,
        )

    def _track(self, record: StepRecord, evidence: list[Evidence]) -> list[Signal]:
        first = min(evidence, key=lambda item: item.onset_step) if evidence else None
        incident_id = ""
        if self.tracker.open is None and first is not None:
            incident_id = record_id(
                topics.SIGNALS.name, self._project, self._run, record.attempt, first.kind, first.onset_step
            )
        change = self.tracker.update(record, evidence, self.recent, self._baselines(evidence), incident_id)
        if change is not None and change.phase == "close":
            self._detectors.settle()
        if change is None or (change.phase == "update" and not self._is_news(change.incident)):
            return []
        return [self._signal(record, change, max(evidence, key=lambda item: item.score) if evidence else None)]

    def _baselines(self, evidence: list[Evidence]) -> Baselines:
        """What was ordinary: where a detector held the value against something lower, that."""
        detectors = self._detectors
        loss, grad = detectors.loss.level(), detectors.grad.level()
        for item in evidence:
            if item.metric == LOSS and item.kind != "nan":
                loss = min(loss, item.baseline)
            elif item.metric == GRAD_NORM and item.kind != "nan":
                grad = min(grad, item.baseline)
        return Baselines(
            loss,
            detectors.loss.scale(),
            grad,
            untrained_level(detectors.phase.start_level(), self._uniform_loss),
            detectors.grad.lowest(),
            detectors.phase.is_coarse,
            detectors.phase.state.num_records,
        )

    def _notices(self, record: StepRecord) -> list[Signal]:
        """Of an incident that the rules have just opened the learned detector has nothing to add."""
        losses, is_open = list(self.recent.losses), self.tracker.open is not None
        return [
            notice(self._project, self._run, record, found, losses)
            for found in self._detectors.notices
            if not (is_open and found.kind == "learned")
        ]

    def _begin_run(self, record: StepRecord) -> list[Signal]:
        """The log goes on with another run: an open incident is over with the one it was in."""
        change = self.tracker.close("lost" if self._ends_as_lost() else "recovered_higher")
        self.tracker.forget()
        return [self._signal(record, change, None)] if change else []

    def _ends_as_lost(self) -> bool:
        incident = self.tracker.open
        return incident is not None and not incident.p_recover >= 0.5

    def _is_news(self, incident: Incident) -> bool:
        told = self._told
        return (
            incident.state != told.state
            or len(incident.kinds) != told.num_kinds
            or incident.num_records - told.num_records >= self._settings.update_every_records
            or not abs(incident.p_recover - told.p_recover) < self._settings.update_at_p_change
        )

    def _signal(self, record: StepRecord, change: Change, evidence: Evidence | None) -> Signal:
        incident = change.incident
        self._told = Told(incident.state, len(incident.kinds), incident.num_records, incident.p_recover)
        shown = evidence or self._level_evidence(incident)
        band = self.band(shown.metric)
        return Signal(
            id=record_id(topics.SIGNALS.name, self._project, self._run, record.attempt, record.rank, incident.id,
                         change.phase, record.step),
            project=self._project,
            run=self._run,
            attempt=record.attempt,
            rank=record.rank,
            step=record.step,
            seq=record.seq,
            ts=record.ts,
            kind=shown.kind,
            severity=shown.severity,
            phase=change.phase,
            incident=incident.id,
            state=incident.state,
            onset_step=incident.onset_step,
            metric=shown.metric,
            value=shown.value,
            baseline=shown.baseline,
            score=shown.score,
            threshold=shown.threshold,
            peak=incident.peak,
            num_steps=max(0, record.step - incident.onset_step),
            evidence=list(self.recent.grads if shown.metric == GRAD_NORM else self.recent.losses),
            p_recover=incident.p_recover,
            moved=incident.moved,
            explanation=explain(change, shown),
            live=record.live,
            features=dict(incident.features),
            band_low=band[1] if band else None,
            band_high=band[2] if band else None,
        )  # fmt: skip

    def _level_evidence(self, incident: Incident) -> Evidence:
        """The loss against the incident's band, where no detector spoke."""
        level = self.recent.median_loss(9)
        score = (level - incident.base_loss) / incident.scale if incident.scale else math.nan
        band = self._settings.incidents.band_scales
        return Evidence(incident.kind, LOSS, level, incident.base_loss, score, band, "info", incident.onset_step)


def explain(change: Change, shown: Evidence) -> str:
    """One sentence for people."""
    incident = change.incident
    if change.phase == "close":
        return f"{incident.kind} since step {incident.onset_step} ended as {incident.state}"
    if shown.kind == "nan":
        what = f"{shown.metric} is {shown.value}"
    elif shown.metric in (GRAD_NORM, UPDATE_NORM):
        what = f"{shown.metric} {shown.value:.4g} is {shown.score:.3g} times its median {shown.baseline:.4g}"
    else:
        what = f"{shown.metric} {shown.value:.4g} is {shown.score:.3g} scales above {shown.baseline:.4g}"
    return f"{what}; {incident.state} since step {incident.onset_step}, P(recover) {incident.p_recover:.2f}"
