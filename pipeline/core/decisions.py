"""From an open incident to a decision, an action and, later, its outcome: the stage that may act."""

from __future__ import annotations

import math
from typing import Protocol

from msgspec import Struct

from holter.pipeline.core.decide.checkpoints import Checkpoint, CheckpointHealth, CheckpointState
from holter.pipeline.core.decide.outcomes import MEASURED_AFTER_STEPS, PendingOutcome, measure
from holter.pipeline.core.decide.policy import MONITOR, PRESETS, Choice, Situation, effect_names, options
from holter.pipeline.core.decide.safety import Outstanding, Safety, SafetySettings, SafetyState
from holter.pipeline.core.incidents import Incident
from holter.pipeline.core.recent import RecentValues
from holter.pipeline.core.stats.rolling import RollingMedian
from holter.pipeline.core.steps import StepRecord
from holter.schemas import encode, record_id, topics
from holter.schemas.control import Action, Health
from holter.schemas.decisions import Decision, Outcome
from holter.schemas.digests import digest
from holter.schemas.telemetry import (
    STEP_SECONDS,
    Ack,
    CheckpointQuarantined,
    CheckpointSaved,
    CheckpointVerified,
    RunEvent,
    Started,
)

Verdict = Decision | Outcome | Action | Health


class DecisionState(Struct):
    policy: str
    safety: SafetyState
    checkpoints: CheckpointState
    step_seconds: list[float] = []
    lr_factor: float = 1.0
    told: tuple[str, str, str] = ("", "", "")
    """Incident, choice and what held it back, as last decided."""
    pending: PendingOutcome | None = None


class View(Protocol):
    """What the stage before says of the run at this step."""

    @property
    def incident(self) -> Incident | None:
        """The open one."""

    @property
    def recent(self) -> RecentValues: ...

    def is_outside_band(self, incident: Incident) -> bool:
        """Whether the level of the loss is above the incident's band."""


class DecisionStage:
    """Decides at every step of an open incident; speaks when the choice, or what holds it back, changes.

    Args:
        issuer_epoch: of this deployment; trainers refuse actions of a lower one.
    """

    def __init__(
        self,
        project: str,
        run: str,
        policy: str,
        issuer_epoch: int,
        safety: SafetySettings | None = None,
        state: DecisionState | None = None,
    ) -> None:
        self._project = project
        self._run = run
        self._epoch = issuer_epoch
        kept = state or DecisionState(policy, SafetyState(), CheckpointState())
        self.policy = kept.policy
        self.safety = Safety(safety or SafetySettings(), kept.safety)
        self.checkpoints = CheckpointHealth(kept.checkpoints)
        self._step_seconds = RollingMedian(65)
        self._step_seconds.restore(list(range(len(kept.step_seconds))), kept.step_seconds)
        self._lr_factor = kept.lr_factor
        self._told = kept.told
        self._pending = kept.pending

    def update(self, record: StepRecord, view: View, now: int) -> list[Verdict]:
        """Takes one judged step with what the signals stage made of it."""
        self.safety.step(record.ts)
        seconds = record.values.get(STEP_SECONDS)
        if seconds is not None and math.isfinite(seconds):
            self._step_seconds.push(record.step, seconds)
        verdicts: list[Verdict] = []
        if self._pending is not None and self.safety.state.num_executed >= self._pending.due:
            verdicts.append(self._outcome(record, self._pending, view))
        incident = view.incident
        if incident is not None:
            if incident.num_records == 1:
                self.checkpoints.incident_opened(incident.onset_step)
            verdicts += self._decide(record, incident, view, now)
        healthy = self.checkpoints.advance(record.step, incident is not None)
        if healthy is not None:
            verdicts.append(self._health(record, healthy))
        return verdicts

    def on_event(self, record: RunEvent) -> None:
        """Takes what happened to the run: capabilities and checkpoints."""
        event = record.event
        if isinstance(event, Started):
            self.safety.started(event)
        elif isinstance(event, CheckpointSaved):
            self.checkpoints.saved(Checkpoint(event.checkpoint, record.step, event.save_seconds))
        elif isinstance(event, CheckpointQuarantined):
            self.checkpoints.quarantined(event.checkpoint)
        elif isinstance(event, CheckpointVerified) and event.load_seconds is not None:
            self.checkpoints.state.load_seconds = event.load_seconds

    def on_ack(self, ack: Ack, incident: Incident | None) -> None:
        """Takes a trainer's answer to an action."""
        ended = self.safety.acknowledged(ack.action, ack.ordinal, ack.action_attempt)
        if ack.status != "applied":
            if self._pending is not None and self._pending.action == ack.action:
                self._pending = None
            return
        for effect in ack.effects:
            if effect.effect == "lr_factor" and effect.after is not None:
                self._lr_factor = effect.after
        if ended is None:
            return
        if incident is not None and incident.id == ended.incident:
            incident.applied.extend(effect for effect in ended.effects if effect not in incident.applied)
        if self._pending is not None and self._pending.action == ended.action:
            self._pending.due = self.safety.state.num_executed + MEASURED_AFTER_STEPS

    def begin_attempt(self, attempt: int, kept_step: int) -> None:
        self.safety.begin_attempt(attempt)
        self.checkpoints.rewind(kept_step)
        self._told = ("", "", "")

    def state(self) -> DecisionState:
        return DecisionState(
            self.policy,
            self.safety.state,
            self.checkpoints.state,
            self._step_seconds.values(),
            self._lr_factor,
            self._told,
            self._pending,
        )

    def _decide(self, record: StepRecord, incident: Incident, view: View, now: int) -> list[Verdict]:
        situation = self._situation(record, incident, view)
        choice = PRESETS[self.policy](situation)
        effects = effect_names(choice)
        is_live = record.live and now - record.ts <= self.safety.settings.max_age_ms
        held = "" if choice.name == MONITOR else self.safety.refusal(effects, is_live)
        told = (incident.id, choice.name, held)
        if told == self._told or self._is_underway(incident, choice):
            return []
        self._told = told
        action = None if held or choice.name == MONITOR else self._act(record, incident, choice, view)
        decision = self._decision(record, situation, choice, held, action)
        return [decision] if action is None else [decision, action]

    def _is_underway(self, incident: Incident, choice: Choice) -> bool:
        """Whether this choice was issued for this incident and waits for its answer: nothing new to say."""
        outstanding = self.safety.state.outstanding
        return (
            outstanding is not None
            and outstanding.incident == incident.id
            and outstanding.effects == effect_names(choice)
        )

    def _situation(self, record: StepRecord, incident: Incident, view: View) -> Situation:
        target = self.checkpoints.newest_healthy(incident.onset_step)
        return Situation(
            incident=incident,
            step=record.step,
            non_finite=view.recent.loss_reached_weights() or view.recent.num_grads_reached_weights() > 0,
            outside_band=view.is_outside_band(incident),
            checkpoint=target,
            load_seconds=self.checkpoints.load_seconds(target) if target else 0.0,
            step_seconds=self._step_seconds.median() if len(self._step_seconds) else 0.0,
            lr_factor=self._lr_factor,
        )

    def _act(self, record: StepRecord, incident: Incident, choice: Choice, view: View) -> Action:
        state, settings = self.safety.state, self.safety.settings
        ordinal = state.ordinal + 1
        action = Action(
            id=record_id(topics.CONTROL.name, self._project, self._run, record.attempt, incident.id, ordinal),
            project=self._project,
            run=self._run,
            attempt=record.attempt,
            ordinal=ordinal,
            incident=incident.id,
            effects=list(choice.effects),
            decided_ts=record.ts,
            expires_ts=record.ts + settings.action_lifetime_ms,
            first_step=record.step,
            last_step=record.step + settings.action_window_steps,
            seq=record.seq,
            issuer_epoch=self._epoch,
            reason=choice.reason,
        )
        self.safety.issued(
            Outstanding(action.id, ordinal, action.expires_ts, action.last_step, effect_names(choice), incident.id)
        )
        self._pending = self._expect(record, incident, action, view)
        return action

    def _expect(self, record: StepRecord, incident: Incident, action: Action, view: View) -> PendingOutcome:
        restored = next((effect.step for effect in action.effects if hasattr(effect, "step")), record.step)
        return PendingOutcome(
            action=action.id,
            incident=incident.id,
            level_before=view.recent.median_loss(9),
            base_loss=incident.base_loss,
            scale=incident.scale,
            due=self.safety.state.num_executed + MEASURED_AFTER_STEPS + self.safety.settings.action_window_steps,
            lost_steps=max(0, record.step - restored),
        )

    def _decision(
        self, record: StepRecord, situation: Situation, choice: Choice, held: str, action: Action | None
    ) -> Decision:
        incident = situation.incident
        return Decision(
            id=record_id(topics.DECISIONS.name, self._project, self._run, record.attempt, incident.id, record.step),
            project=self._project,
            run=self._run,
            attempt=record.attempt,
            rank=record.rank,
            step=record.step,
            seq=record.seq,
            ts=record.ts,
            incident=incident.id,
            policy=self.policy,
            mode=self.safety.mode(effect_names(choice)),
            options=options(situation),
            choice=choice.name,
            reason=choice.reason,
            p_recover=incident.p_recover,
            action=action.id if action else "",
            digest=digest(encode(action)) if action else "",
            held=held,
        )

    def _health(self, record: StepRecord, checkpoint: Checkpoint) -> Health:
        return Health(
            id=record_id(topics.CONTROL.name, self._project, self._run, record.attempt, "health", checkpoint.step),
            project=self._project,
            run=self._run,
            attempt=record.attempt,
            checkpoint=checkpoint.name,
            step=checkpoint.step,
            ts=record.ts,
            seq=record.seq,
            issuer_epoch=self._epoch,
        )

    def _outcome(self, record: StepRecord, pending: PendingOutcome, view: View) -> Outcome:
        self._pending = None
        measured = measure(pending, view.recent.median_loss(9))
        return Outcome(
            id=record_id(topics.DECISIONS.name, self._project, self._run, pending.action, "outcome"),
            project=self._project,
            run=self._run,
            attempt=record.attempt,
            rank=record.rank,
            step=record.step,
            seq=record.seq,
            ts=record.ts,
            action=pending.action,
            incident=pending.incident,
            result=measured.result,
            level_before=pending.level_before,
            level_after=measured.level_after,
            num_steps=MEASURED_AFTER_STEPS,
            lost_steps=pending.lost_steps,
        )
