"""The records that decisions are told in, with ids that every replay computes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holter.pipeline.core.decide.checkpoints import Checkpoint
from holter.pipeline.core.decide.outcomes import MEASURED_AFTER_STEPS, Measured, PendingOutcome
from holter.schemas import encode, record_id, topics
from holter.schemas.bounds import Autonomy
from holter.schemas.control import Action, Authority, Effect, Health
from holter.schemas.decisions import Answer, Decision, Option, Outcome
from holter.schemas.digests import digest


class Cause(Protocol):
    """The record that made something be said."""

    @property
    def attempt(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def ts(self) -> int: ...
    @property
    def seq(self) -> int: ...


class Heard(NamedTuple):
    """The last record of a run, as it is remembered."""

    attempt: int
    rank: int
    step: int
    ts: int
    seq: int


class Order(NamedTuple):
    """What an action is to be: ``incident`` is the id of an order where there is no incident."""

    incident: str
    effects: tuple[Effect, ...]
    reason: str
    authority: Authority
    decided_ts: int
    lifetime_ms: int
    window_steps: int
    command: str = ""
    """Of the person that ordered it: it is carried out once, in whichever attempt it is met."""


class Said(NamedTuple):
    """What the policy and the rules of safety make of an incident or an order."""

    policy: str
    mode: Autonomy
    options: Sequence[Option]
    choice: str
    reason: str
    held: str = ""


class Reply(NamedTuple):
    """To a person's command. ``command`` is its id, ``answers`` what it was about."""

    command: str
    person: str
    answers: str
    answer: Answer
    incident: str
    said: Said
    action: Action | None = None


class Writer:
    """Args:
    epoch: of this deployment; trainers refuse actions of a lower one.
    """

    def __init__(self, project: str, run: str, epoch: int) -> None:
        self.epoch = epoch
        self._project = project
        self._run = run

    def action(self, cause: Cause, ordinal: int, order: Order) -> Action:
        """Its id has neither kind nor time in it: whoever decides or orders the same again says the same."""
        origin = (order.command,) if order.command else (cause.attempt, order.incident, ordinal)
        return Action(
            id=record_id(topics.CONTROL.name, self._project, self._run, *origin),
            project=self._project,
            run=self._run,
            attempt=cause.attempt,
            ordinal=ordinal,
            incident=order.incident,
            effects=list(order.effects),
            decided_ts=order.decided_ts,
            expires_ts=order.decided_ts + order.lifetime_ms,
            first_step=cause.step,
            last_step=cause.step + order.window_steps,
            seq=cause.seq,
            issuer_epoch=self.epoch,
            reason=order.reason[:2000],
            authority=order.authority,
        )

    def decision_id(self, cause: Cause, incident: str) -> str:
        return record_id(topics.DECISIONS.name, self._project, self._run, cause.attempt, incident, cause.step)

    def decision(
        self, cause: Cause, incident: str, p_recover: float, said: Said, action: Action | None, is_issued: bool
    ) -> Decision:
        """``action`` is the one that was issued, or that waits for its approval."""
        return Decision(
            id=self.decision_id(cause, incident),
            project=self._project,
            run=self._run,
            attempt=cause.attempt,
            rank=cause.rank,
            step=cause.step,
            seq=cause.seq,
            ts=cause.ts,
            incident=incident,
            policy=said.policy,
            mode=said.mode,
            options=list(said.options)[:32],
            choice=said.choice,
            reason=said.reason[:2000],
            p_recover=p_recover,
            action=action.id if action and is_issued else "",
            digest=digest(encode(action)) if action else "",
            held=said.held,
        )

    def answer(self, cause: Cause, reply: Reply) -> Decision:
        said, action = reply.said, reply.action
        return Decision(
            id=record_id(topics.DECISIONS.name, self._project, self._run, reply.command, "answer"),
            project=self._project,
            run=self._run,
            attempt=max(0, cause.attempt),
            rank=cause.rank,
            step=cause.step,
            seq=cause.seq,
            ts=cause.ts,
            incident=reply.incident,
            policy=said.policy,
            mode=said.mode,
            options=list(said.options),
            choice=said.choice,
            reason=said.reason[:2000],
            action=action.id if action else "",
            digest=digest(encode(action)) if action else "",
            held=said.held[:2000],
            person=reply.person,
            answers=reply.answers,
            answer=reply.answer,
        )

    def health(self, cause: Cause, checkpoint: Checkpoint) -> Health:
        return Health(
            id=record_id(topics.CONTROL.name, self._project, self._run, cause.attempt, "health", checkpoint.step),
            project=self._project,
            run=self._run,
            attempt=cause.attempt,
            checkpoint=checkpoint.name,
            step=checkpoint.step,
            ts=cause.ts,
            seq=cause.seq,
            issuer_epoch=self.epoch,
        )

    def outcome(self, cause: Cause, pending: PendingOutcome, measured: Measured, steps_early: int) -> Outcome:
        return Outcome(
            id=record_id(topics.DECISIONS.name, self._project, self._run, pending.action, "outcome"),
            project=self._project,
            run=self._run,
            attempt=cause.attempt,
            rank=cause.rank,
            step=cause.step,
            seq=cause.seq,
            ts=cause.ts,
            action=pending.action,
            incident=pending.incident,
            result=measured.result,
            level_before=pending.level_before,
            level_after=measured.level_after,
            num_steps=max(0, MEASURED_AFTER_STEPS - steps_early),
            lost_steps=pending.lost_steps,
        )
