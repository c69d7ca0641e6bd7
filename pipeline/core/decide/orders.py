"""What people order, carried out once and answered: every answer is a decision that says what became of the order."""

from __future__ import annotations

from collections.abc import Sequence

from holter.pipeline.core.decide.checkpoints import CheckpointHealth
from holter.pipeline.core.decide.decision_state import DecisionState, Proposal
from holter.pipeline.core.decide.issuing import Issuer, View, proposed_action
from holter.pipeline.core.decide.policy import PRESETS
from holter.pipeline.core.decide.safety import Price, Safety
from holter.pipeline.core.decide.settings import PolicySettings, SettingError, adjusted
from holter.pipeline.core.decide.writer import Cause, Heard, Order, Reply, Said, Writer
from holter.schemas import encode
from holter.schemas.bounds import EffectName
from holter.schemas.commands import Act, Approve, Command, Hold, HoldState, Policy, Reject
from holter.schemas.control import Action, Effect, Rollback, effect_name
from holter.schemas.decisions import Answer, Decision, Option, Outcome
from holter.schemas.digests import digest

_MAX_REMEMBERED = 64
_MAX_REJECTED = 16

Answered = list[Decision | Action | Outcome]


class Orders:
    """Shares its state with the stage. An order that was taken once, or is older than it may be, changes nothing."""

    def __init__(
        self, state: DecisionState, safety: Safety, checkpoints: CheckpointHealth, issuer: Issuer, writer: Writer
    ) -> None:
        self._state = state
        self._safety = safety
        self._checkpoints = checkpoints
        self._issuer = issuer
        self._writer = writer

    def take(self, command: Command | HoldState, view: View, now: int) -> Answered:
        command_id = digest(encode(command))
        if command_id in self._state.commands:
            return []
        self._state.commands = [*self._state.commands, command_id][-_MAX_REMEMBERED:]
        order = _Taken(self._state, self._safety, self._writer, command, command_id, view, now)
        if isinstance(command, Approve):
            return order.out_of_date() or self._approve(command, order)
        if isinstance(command, Reject):
            return order.out_of_date() or self._reject(command, order)
        if isinstance(command, Act):
            return order.out_of_date() or self._act(command, order)
        if isinstance(command, Policy):
            return self._policy(command, order)
        return self._hold(command, order)

    def _approve(self, command: Approve, order: _Taken) -> Answered:
        proposal = self._state.proposal
        if proposal is None or proposal.decision != command.decision:
            return order.stale("no such proposal waits: it was answered or replaced, or its incident is over")
        if proposal.digest != command.digest:
            return order.refused("the digest is that of another action")
        action = proposed_action(proposal)
        reason = self._outdated(proposal, action, order)
        if reason:
            self._withdraw()
            return order.stale(reason)
        held = self._safety.prohibition(proposal.effects) or self._safety.not_now(is_live=True)
        if held:
            return order.refused(held, proposal.effects)
        self._state.proposal = None
        price = Price(proposal.lost_steps, proposal.lost_seconds)
        told = self._issuer.issue(order.cause, action, proposal.kind, price, order.view)
        return [*told, order.done(f"approved: {action.reason}", action), action]

    def _outdated(self, proposal: Proposal, action: Action, order: _Taken) -> str:
        incident = order.view.incident
        if incident is None or incident.id != proposal.incident:
            return "its incident is over"
        if order.now > proposal.expires_ts:
            return "its time is over"
        if action.attempt != self._safety.state.attempt or action.ordinal != self._safety.state.ordinal + 1:
            return "another action came between"
        if action.issuer_epoch != self._writer.epoch:
            return "it was proposed by an earlier deployment"
        healthy = {kept.name for kept in self._checkpoints.state.healthy}
        if any(isinstance(each, Rollback) and each.checkpoint not in healthy for each in action.effects):
            return "its checkpoint was set aside"
        return ""

    def _reject(self, command: Reject, order: _Taken) -> Answered:
        proposal = self._state.proposal
        if proposal is None or proposal.decision != command.decision:
            return order.stale("no such proposal waits")
        key = rejection(proposal.incident, proposal.effects)
        self._state.rejected = [*self._state.rejected, key][-_MAX_REJECTED:]
        self._withdraw()
        return [order.done("rejected for this incident")]

    def _withdraw(self) -> None:
        self._state.proposal = None
        self._state.told = ("", "", "")

    def _act(self, command: Act, order: _Taken) -> Answered:
        effects = self._resolved(command.effects, order)
        names = [effect_name(effect) for effect in effects]
        held = (
            _missing_target(effects)
            or self._safety.prohibition(names)
            or self._safety.out_of_bounds(effects)
            or self._safety.not_now(is_live=True, supersedes=True)
        )
        if held:
            return order.refused(held, names)
        superseded = self._safety.state.outstanding
        settings, incident = self._safety.settings, order.view.incident
        wanted = Order(
            incident=incident.id if incident else order.command_id,
            effects=effects,
            reason=_worded(command),
            authority="person",
            decided_ts=order.now,
            lifetime_ms=settings.approval_lifetime_ms,
            window_steps=settings.action_window_steps,
            command=order.command_id,
        )
        action = self._issuer.make(order.cause, wanted)
        if self._safety.is_handled(action.id):
            return order.stale("the trainer has answered it before")
        price = Price(sum(max(0, order.cause.step - each.step) for each in effects if isinstance(each, Rollback)))
        told = self._issuer.issue(order.cause, action, incident.kind if incident else "", price, order.view)
        self._withdraw()
        instead = f", in place of action {superseded.action}" if superseded else ""
        return [*told, order.done(f"ordered {', '.join(names)}{instead}", action), action]

    def _resolved(self, effects: Sequence[Effect], order: _Taken) -> tuple[Effect, ...]:
        """A rollback that names no checkpoint goes to the newest healthy one."""
        incident = order.view.incident
        target = self._checkpoints.newest_healthy(incident.onset_step if incident else order.cause.step)
        return tuple(
            Rollback(target.name, target.step)
            if isinstance(effect, Rollback) and not effect.checkpoint and target is not None
            else effect
            for effect in effects
        )

    def _policy(self, command: Policy, order: _Taken) -> Answered:
        if command.ts <= self._state.policy_ts:
            return order.stale("a newer policy was taken before")
        if command.preset is not None and command.preset not in PRESETS:
            return order.refused(f"there is no policy {command.preset!r}; there are {', '.join(PRESETS)}")
        numbers = {**self._state.settings, **command.settings}
        try:
            adjusted(PolicySettings(), numbers)
        except SettingError as error:
            return order.refused(str(error))
        self._state.policy_ts = command.ts
        self._state.policy = command.preset or self._state.policy
        self._state.settings = numbers
        self._state.priors = dict(command.priors) or self._state.priors
        self._safety.state.ordered_autonomy.update(command.autonomy)
        self._withdraw()
        return [order.done(f"from now on: {_changes(command)}")]

    def _hold(self, command: HoldState, order: _Taken) -> Answered:
        is_hold = isinstance(command, Hold)
        if not self._safety.held(is_hold, command.ts):
            return order.stale("a newer hold or release was taken before")
        return [order.done("nothing is applied until it is released" if is_hold else "actions may be applied again")]


class _Taken:
    """One order, and how it is answered."""

    def __init__(
        self,
        state: DecisionState,
        safety: Safety,
        writer: Writer,
        command: Command | HoldState,
        command_id: str,
        view: View,
        now: int,
    ) -> None:
        self.command_id = command_id
        self.view = view
        self.now = now
        self._policy = state.policy
        self._safety = safety
        self._writer = writer
        self._command = command
        self.cause: Cause = Heard(*state.last) if state.last else Heard(0, -1, 0, command.ts, 0)

    def out_of_date(self) -> Answered:
        """An answer where it was signed too long ago, or in a time to come; else nothing."""
        limit_ms = self._safety.settings.approval_lifetime_ms
        age_ms = self.now - self._command.ts
        if abs(age_ms) <= limit_ms:
            return []
        when = f"{age_ms / 1000:.0f} s ago" if age_ms > 0 else f"{-age_ms / 1000:.0f} s ahead of the clock here"
        return self.stale(f"it was signed {when}, the limit is {limit_ms / 1000:.0f} s")

    def done(self, reason: str, action: Action | None = None) -> Decision:
        effects = [effect_name(effect) for effect in action.effects] if action else []
        return self._answer("done", reason, "", effects, action)

    def stale(self, reason: str) -> Answered:
        return [self._answer("stale", reason, reason, [], None)]

    def refused(self, held: str, effects: Sequence[EffectName] = ()) -> Answered:
        return [self._answer("refused", held, held, effects, None)]

    def _answer(
        self, answer: Answer, reason: str, held: str, effects: Sequence[EffectName], action: Action | None
    ) -> Decision:
        command, incident = self._command, self.view.incident
        name = str(command.__struct_config__.tag)
        said = Said(
            policy=self._policy,
            mode=self._safety.mode(effects),
            options=[Option(name, list(effects))],
            choice=name,
            reason=f"{command.person}: {reason}",
            held=held,
        )
        about = command.decision if isinstance(command, Approve | Reject) else self.command_id
        incident_id = incident.id if incident else self.command_id
        reply = Reply(self.command_id, command.person, about, answer, incident_id, said, action)
        return self._writer.answer(self.cause, reply)


def rejection(incident: str, effects: Sequence[EffectName]) -> str:
    """What a person's no is remembered by."""
    return f"{incident}/{','.join(effects)}"


def _missing_target(effects: Sequence[Effect]) -> str:
    is_missing = any(isinstance(effect, Rollback) and not effect.checkpoint for effect in effects)
    return "no healthy checkpoint is known" if is_missing else ""


def _worded(command: Act) -> str:
    return f"{command.person}: {command.reason}" if command.reason else f"ordered by {command.person}"


def _changes(command: Policy) -> str:
    parts = [f"policy {command.preset}"] if command.preset else []
    parts += [f"{effect} {autonomy}" for effect, autonomy in command.autonomy.items()]
    parts += [f"{name} {value:g}" for name, value in command.settings.items()]
    parts += [f"{len(command.priors)} priors"] if command.priors else []
    return ", ".join(parts) or "nothing changes"
