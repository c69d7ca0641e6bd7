"""From what is wanted to an action that goes out, or waits for a person; and what is expected of it."""

from __future__ import annotations

from typing import Protocol

from holter.pipeline.core.decide.decision_state import DecisionState, Proposal
from holter.pipeline.core.decide.outcomes import MEASURED_AFTER_STEPS, PendingOutcome, measure
from holter.pipeline.core.decide.safety import Outstanding, Price, Safety
from holter.pipeline.core.decide.success import prior_name
from holter.pipeline.core.decide.writer import Cause, Order, Writer
from holter.pipeline.core.incidents import Incident
from holter.pipeline.core.recent import RecentValues
from holter.schemas import codec, encode
from holter.schemas.commands import Prior
from holter.schemas.control import Action, LrFactor, Rollback, effect_name
from holter.schemas.decisions import Outcome
from holter.schemas.digests import digest

_LEVEL_OF = 9


class View(Protocol):
    """What the stage before says of the run at this step."""

    @property
    def incident(self) -> Incident | None:
        """The open one."""

    @property
    def recent(self) -> RecentValues: ...

    def is_outside_band(self, incident: Incident) -> bool:
        """Whether the level of the loss is above the incident's band."""


class Issuer:
    """Shares its state with the stage that it issues for."""

    def __init__(self, state: DecisionState, safety: Safety, writer: Writer) -> None:
        self._state = state
        self._safety = safety
        self._writer = writer

    def make(self, cause: Cause, order: Order) -> Action:
        """The action as it would be issued next."""
        return self._writer.action(cause, self._safety.state.ordinal + 1, order)

    def issue(self, cause: Cause, action: Action, kind: str, price: Price, view: View) -> list[Outcome]:
        """Makes it the outstanding one; returns the outcome of the one before where that was not told yet."""
        told = self.settle(cause, view)
        effects = [effect_name(effect) for effect in action.effects]
        target = next((effect for effect in action.effects if isinstance(effect, Rollback)), None)
        self._safety.issued(
            Outstanding(
                action.id,
                action.ordinal,
                action.expires_ts,
                action.last_step,
                effects,
                action.incident,
                target.checkpoint if target else "",
                kind,
                price.lost_seconds,
                action.authority,
                next((effect.ramp_steps for effect in action.effects if isinstance(effect, LrFactor)), 0),
            )
        )
        self._expect(action, kind, price, view)
        return told

    def propose(self, decision: str, action: Action, kind: str, price: Price) -> None:
        """Keeps it until a person answers, its incident ends or its time is over."""
        body = encode(action)
        self._state.proposal = Proposal(
            decision,
            digest(body),
            body,
            action.incident,
            kind,
            [effect_name(effect) for effect in action.effects],
            action.expires_ts,
            price.lost_steps,
            price.lost_seconds,
        )

    def settle(self, cause: Cause, view: View) -> list[Outcome]:
        """Ends the measuring of the last applied action now; what it did goes into what helped on this run."""
        pending, self._state.pending = self._state.pending, None
        if pending is None or not pending.is_applied:
            return []
        measured = measure(pending, view.recent.median_loss(_LEVEL_OF))
        if measured.result != "unknown":
            self._remember(pending, measured.result == "recovered")
        steps_early = max(0, pending.due - self._safety.state.num_executed)
        return [self._writer.outcome(cause, pending, measured, steps_early)]

    def _remember(self, pending: PendingOutcome, recovered: bool) -> None:
        for effect in pending.effects:
            name = prior_name(pending.kind, effect)
            before = self._state.helped.get(name, Prior(0.0, 0.0))
            self._state.helped[name] = Prior(before.num + 1.0, before.num_recovered + recovered)

    def _expect(self, action: Action, kind: str, price: Price, view: View) -> None:
        incident = view.incident
        waits_steps = MEASURED_AFTER_STEPS + self._safety.settings.action_window_steps
        self._state.pending = PendingOutcome(
            action=action.id,
            incident=action.incident,
            level_before=view.recent.median_loss(_LEVEL_OF),
            base_loss=incident.base_loss if incident else float("nan"),
            scale=incident.scale if incident else float("nan"),
            due=self._safety.state.num_executed + waits_steps,
            lost_steps=price.lost_steps,
            kind=kind,
            effects=[effect_name(effect) for effect in action.effects],
        )


def proposed_action(proposal: Proposal) -> Action:
    action = codec.control.decode(proposal.body)
    assert isinstance(action, Action)
    return action
