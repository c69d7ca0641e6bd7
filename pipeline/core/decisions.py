"""From an open incident to a decision, an action and, later, its outcome: the stage that may act."""

from __future__ import annotations

import math
from collections.abc import Mapping

from holter.pipeline.core.decide.checkpoints import Checkpoint, CheckpointHealth, CheckpointState
from holter.pipeline.core.decide.course import CourseTracker
from holter.pipeline.core.decide.decision_state import DecisionState
from holter.pipeline.core.decide.expected_cost import everything
from holter.pipeline.core.decide.issuing import Issuer, View
from holter.pipeline.core.decide.non_finite import may_be_in_weights
from holter.pipeline.core.decide.orders import Orders, rejection
from holter.pipeline.core.decide.outcomes import MEASURED_AFTER_STEPS
from holter.pipeline.core.decide.policy import MONITOR, Choice, Situation, effect_names, policy_named
from holter.pipeline.core.decide.progress import Progress
from holter.pipeline.core.decide.safety import Outstanding, Price, Safety, SafetySettings, SafetyState
from holter.pipeline.core.decide.settings import PolicySettings, SettingError, adjusted
from holter.pipeline.core.decide.writer import Heard, Order, Said, Writer
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET, policy_from_text
from holter.pipeline.core.incidents import Incident
from holter.pipeline.core.stats.rolling import RollingMedian
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Autonomy
from holter.schemas.commands import Command, HoldState
from holter.schemas.control import Action, Health, Rollback
from holter.schemas.decisions import Decision, Outcome
from holter.schemas.telemetry import (
    STEP_SECONDS,
    Ack,
    CheckpointQuarantined,
    CheckpointSaved,
    CheckpointVerified,
    Resumed,
    RunEvent,
    Started,
)

__all__ = ["DecisionStage", "DecisionState", "View"]

Verdict = Decision | Outcome | Action | Health

WAITS = "waits for approval"
_APPROVAL_WINDOW_STEPS = 1_000_000
_NOTHING_TOLD = ("", "", "")
_LEVEL_OF = 9


class DecisionStage:
    """Decides at every step of an open incident; speaks when the choice, or what holds it back, changes.

    Args:
        policy: of this deployment, as :func:`policy_from_text` reads it; what people order at run time goes before it.
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
        written = policy_from_text(policy)
        preset = written.preset or DEFAULT_PRESET
        self._kept = kept = state or DecisionState(preset, SafetyState(), CheckpointState())
        if not kept.policy_ts:
            kept.policy = preset
        self._base = adjusted(PolicySettings(safety=safety or SafetySettings()), written.settings)
        self._writer = Writer(project, run, issuer_epoch)
        self.safety = Safety(self._base.safety, kept.safety, written.autonomy)
        self.checkpoints = CheckpointHealth(kept.checkpoints)
        self._course = CourseTracker(kept.course)
        self._progress = Progress(kept.progress)
        self._step_seconds = RollingMedian(65)
        self._step_seconds.restore(list(range(len(kept.step_seconds))), kept.step_seconds)
        self._issuer = Issuer(kept, self.safety, self._writer)
        self._orders = Orders(kept, self.safety, self.checkpoints, self._issuer, self._writer)
        self._last: StepRecord | None = None
        self._configure()

    @property
    def policy(self) -> str:
        return self._kept.policy

    def update(self, record: StepRecord, view: View, now: int) -> list[Verdict]:
        """Takes one judged step with what the signals stage made of it."""
        self._last = record
        self.safety.step(record.ts)
        self._course.note(record)
        seconds = record.values.get(STEP_SECONDS)
        if seconds is not None and math.isfinite(seconds):
            self._step_seconds.push(record.step, seconds)
        verdicts: list[Verdict] = []
        pending = self._kept.pending
        if pending is not None and self.safety.state.num_executed >= pending.due:
            verdicts += self._issuer.settle(record, view)
        incident = view.incident
        if self._kept.proposal is not None:
            self._review_proposal(record, incident)
        if incident is not None:
            verdicts += self._decide(record, incident, view, now)
        elif self._progress.is_due(record.step):
            self._progress.mark(record.step, view.recent.median_loss(_LEVEL_OF))
        healthy = self.checkpoints.advance(record.step, incident is not None)
        if healthy is not None:
            verdicts.append(self._writer.health(record, healthy))
        return verdicts

    def on_event(self, record: RunEvent) -> None:
        """Takes what happened to the run: capabilities and checkpoints."""
        event = record.event
        if isinstance(event, Started):
            self.safety.started(event)
        elif isinstance(event, CheckpointSaved):
            is_in_memory = event.tier == "memory"
            self.checkpoints.saved(Checkpoint(event.checkpoint, record.step, event.save_seconds, is_in_memory))
            for name in event.dropped:
                self.checkpoints.gone(name)
        elif isinstance(event, Resumed):
            self.checkpoints.process_restarted()
        elif isinstance(event, CheckpointQuarantined):
            self.checkpoints.gone(event.checkpoint)
        elif isinstance(event, CheckpointVerified) and event.load_seconds is not None:
            self.checkpoints.state.load_seconds = event.load_seconds

    def on_ack(self, ack: Ack, incident: Incident | None) -> None:
        """Takes a trainer's answer to an action."""
        if self.safety.is_handled(ack.action):
            return
        ended = self.safety.acknowledged(ack.action, ack.ordinal, ack.action_attempt, ack.status, _lost_steps(ack))
        pending = self._kept.pending
        if pending is not None and pending.action != ack.action:
            pending = None
        if ack.status != "applied":
            if pending is not None:
                self._kept.pending = None
            if ended is not None and ended.checkpoint and not self._is_healthy(ended.checkpoint):
                self.safety.may_retry_at_once()
            return
        for effect in ack.effects:
            if effect.effect == "lr_factor" and effect.after is not None:
                self._kept.lr_factor = effect.after
                self._kept.lr_ramp = (self.safety.state.num_executed, ended.lr_ramp_steps if ended else 0)
        _add_applied(incident, ack, ended)
        if ended is not None and pending is not None:
            pending.is_applied = True
            pending.due = self.safety.state.num_executed + MEASURED_AFTER_STEPS

    def on_command(self, command: Command | HoldState, view: View, now: int) -> list[Verdict]:
        """Takes what a person ordered, its signature checked; says what became of it."""
        if self._last is not None:
            self._kept.last = _heard(self._last)
        answers = self._orders.take(command, view, now)
        self._configure()
        return [*answers]

    def begin_attempt(self, attempt: int, kept_step: int) -> None:
        self.safety.begin_attempt(attempt)
        self.checkpoints.rewind(kept_step)
        self._course.rewind(kept_step)
        self._progress.rewind(kept_step)
        self._kept.told = _NOTHING_TOLD
        self._kept.proposal = None

    def state(self) -> DecisionState:
        kept = self._kept
        kept.step_seconds = self._step_seconds.values()
        kept.course = self._course.state()
        kept.progress = self._progress.state
        if self._last is not None:
            kept.last = _heard(self._last)
        return kept

    def _configure(self) -> None:
        """Settings may have come by command; one that this release does not know is left out."""
        settings = self._base
        for name, value in self._kept.settings.items():
            try:
                settings = adjusted(settings, {name: value})
            except SettingError:
                continue
        self._settings = settings
        self.safety.settings = settings.safety
        self._policy = policy_named(self._kept.policy, settings.cost)

    def _decide(self, record: StepRecord, incident: Incident, view: View, now: int) -> list[Verdict]:
        if incident.num_records == 1:
            self.checkpoints.incident_opened(incident.onset_step)
        self._count(incident)
        remark = self._set_aside_what_failed(incident)
        situation = self._situation(record, incident, view)
        choice = self._policy(situation)
        if remark:
            choice = choice._replace(reason=f"{remark}; {choice.reason}")
        if choice.name == MONITOR:
            return self._tell(record, situation, choice, "", None, is_issued=False)
        return self._weigh(record, situation, choice, view, now)

    def _weigh(self, record: StepRecord, situation: Situation, choice: Choice, view: View, now: int) -> list[Verdict]:
        """Something is to be done: it is issued, proposed or held back."""
        names, incident = effect_names(choice), situation.incident
        is_live = record.live and now - record.ts <= self.safety.settings.max_age_ms
        price = self._price(situation, choice)
        mode = self.safety.mode(names)
        held = self._objection(situation, choice, price, is_live)
        if self._is_underway(incident, choice):
            return []
        if held or mode == "shadow" or (incident.id, choice.name, held or WAITS) == self._kept.told:
            return self._tell(record, situation, choice, held, None, is_issued=False)
        action = self._issuer.make(record, self._order(record, incident, choice, mode))
        self._kept.told = _NOTHING_TOLD
        if mode == "approve":
            self._issuer.propose(self._writer.decision_id(record, incident.id), action, incident.kind, price)
            return self._tell(record, situation, choice, WAITS, action, is_issued=False)
        told = self._issuer.issue(record, action, incident.kind, price, view)
        return [*told, *self._tell(record, situation, choice, "", action, is_issued=True), action]

    def _objection(self, situation: Situation, choice: Choice, price: Price, is_live: bool) -> str:
        """Why the choice may be neither issued nor proposed; empty when it may."""
        names, safety = effect_names(choice), self.safety
        if rejection(situation.incident.id, names) in self._kept.rejected:
            return "a person rejected it"
        mode = safety.mode(names)
        return (
            safety.prohibition(names)
            or ("autonomy is shadow" if mode == "shadow" else "")
            or safety.out_of_bounds(choice.effects)
            or safety.not_now(is_live)
            or safety.not_again(price)
        )

    def _tell(
        self,
        record: StepRecord,
        situation: Situation,
        choice: Choice,
        held: str,
        action: Action | None,
        is_issued: bool,
    ) -> list[Verdict]:
        """A decision, unless the same was said last of this incident."""
        incident = situation.incident
        told = (incident.id, choice.name, held)
        if told == self._kept.told:
            return []
        self._kept.told = told
        mode = self.safety.mode(effect_names(choice))
        weighed = choice.options or everything(situation, self._settings.cost)
        said = Said(self._kept.policy, mode, weighed, choice.name, choice.reason, held)
        return [self._writer.decision(record, incident.id, incident.p_recover, said, action, is_issued)]

    def _is_underway(self, incident: Incident, choice: Choice) -> bool:
        """Whether this choice was issued or proposed for this incident and waits for its answer."""
        waiting = (self.safety.state.outstanding, self._kept.proposal)
        names = effect_names(choice)
        return any(each is not None and each.incident == incident.id and each.effects == names for each in waiting)

    def _review_proposal(self, record: StepRecord, incident: Incident | None) -> None:
        """It is withdrawn with its incident; when its time is over it may be made anew."""
        proposal = self._kept.proposal
        assert proposal is not None
        if incident is None or incident.id != proposal.incident:
            self._kept.proposal = None
        elif record.ts > proposal.expires_ts:
            self._kept.proposal, self._kept.told = None, _NOTHING_TOLD

    def _order(self, record: StepRecord, incident: Incident, choice: Choice, mode: Autonomy) -> Order:
        settings, asks = self.safety.settings, mode == "approve"
        return Order(
            incident=incident.id,
            effects=choice.effects,
            reason=choice.reason,
            authority="approval" if asks else self.safety.authority(effect_names(choice)),
            decided_ts=record.ts,
            lifetime_ms=settings.approval_lifetime_ms if asks else settings.action_lifetime_ms,
            window_steps=_APPROVAL_WINDOW_STEPS if asks else settings.action_window_steps,
        )

    def _situation(self, record: StepRecord, incident: Incident, view: View) -> Situation:
        targets = self.checkpoints.healthy_before(incident.onset_step)
        course = self._course.follow(incident, self._progress, self._settings.cost.patience_steps)
        return Situation(
            incident=incident,
            step=record.step,
            non_finite=may_be_in_weights(
                record, view.recent, course.num_non_finite, self._settings.cost.non_finite_steps
            ),
            outside_band=view.is_outside_band(incident),
            checkpoint=targets[0] if targets else None,
            load_seconds=self.checkpoints.load_seconds(targets[0]) if targets else 0.0,
            step_seconds=self._median_step_seconds(),
            lr_factor=self._lr_factor(),
            older_checkpoints=targets[1:],
            course=course,
            applicable=self.safety.applicable(),
            num_tried=self.safety.num_tried(incident.kind),
            helped=self._kept.helped,
            priors=self._kept.priors,
            clips="clip_adjust" in self.safety.state.effects,
            lr_floor=self.safety.settings.lr_floor,
            num_alike=self._num_alike(incident),
        )

    def _price(self, situation: Situation, choice: Choice) -> Price:
        lost_steps = sum(
            max(0, situation.step - effect.step) for effect in choice.effects if isinstance(effect, Rollback)
        )
        seconds = lost_steps * situation.step_seconds + (situation.load_seconds if lost_steps else 0.0)
        return Price(lost_steps, seconds, situation.non_finite)

    def _set_aside_what_failed(self, incident: Incident) -> str:
        """The loop breaker: a checkpoint after which the same came again often enough is no target any more."""
        tried: Mapping[str, int] = self.safety.num_tried(incident.kind)
        most = self.safety.settings.max_same_rollbacks
        failed = [name for name, num in tried.items() if num >= most and self._is_healthy(name)]
        for name in failed:
            self.checkpoints.gone(name)
        return f"after {', '.join(failed)} the same came again {most} times: set aside" if failed else ""

    def _count(self, incident: Incident) -> None:
        if self._kept.counted != incident.id:
            self._kept.counted = incident.id
            self._kept.num_by_kind[incident.kind] = self._num_of(incident) + 1

    def _num_alike(self, incident: Incident) -> int:
        return max(0, self._num_of(incident) - 1)

    def _num_of(self, incident: Incident) -> int:
        return self._kept.num_by_kind.get(incident.kind, 0)

    def _lr_factor(self) -> float:
        """As it is by now, ramped back up."""
        factor, (begun_at, num_steps) = self._kept.lr_factor, self._kept.lr_ramp
        if not num_steps:
            return factor
        done = (self.safety.state.num_executed - begun_at) / num_steps
        return factor + (1.0 - factor) * min(1.0, done)

    def _median_step_seconds(self) -> float:
        return self._step_seconds.median() if len(self._step_seconds) else 0.0

    def _is_healthy(self, name: str) -> bool:
        return any(kept.name == name for kept in self.checkpoints.state.healthy)


def _add_applied(incident: Incident | None, ack: Ack, ended: Outstanding | None) -> None:
    """To the open incident, if it was for that; an action that this state does not know of was, if it came later."""
    if incident is None:
        return
    if ended is None and ack.step >= incident.onset_step:
        incident.applied.extend(each.effect for each in ack.effects if each.effect not in incident.applied)
    elif ended is not None and ended.incident == incident.id:
        incident.applied.extend(effect for effect in ended.effects if effect not in incident.applied)


def _lost_steps(ack: Ack) -> int:
    """What a rollback threw away."""
    for effect in ack.effects:
        if effect.effect == "rollback" and effect.before is not None and effect.after is not None:
            return max(0, int(effect.before - effect.after))
    return 0


def _heard(record: StepRecord) -> Heard:
    return Heard(record.attempt, record.rank, record.step, record.ts, record.seq)
