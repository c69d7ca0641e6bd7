"""Whether a chosen action may be issued now. Every refusal has one clear reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from holter.pipeline.core.decide.settings import SafetySettings
from holter.schemas.bounds import AckStatus, Autonomy, EffectName
from holter.schemas.control import Authority, Effect, LrFactor
from holter.schemas.telemetry import Started

__all__ = ["Outstanding", "Price", "Safety", "SafetySettings", "SafetyState"]

_MAX_KEPT_APPLIED = 1000
_MAX_KEPT_TRIED = 16


class Price(NamedTuple):
    """What an action takes from the run's budgets; ``is_urgent`` shortens the cooldown."""

    lost_steps: int = 0
    lost_seconds: float = 0.0
    is_urgent: bool = False


class Outstanding(Struct):
    action: str
    ordinal: int
    expires_ts: int
    last_step: int
    effects: list[EffectName]
    incident: str
    checkpoint: str = ""
    """What it goes back to, where it does,"""
    kind: str = ""
    """and for which kind of incident."""
    lost_seconds: float = 0.0
    authority: Authority = "run"
    lr_ramp_steps: int = 0


class Tried(Struct):
    checkpoint: str
    kind: str
    num: int


class SafetyState(Struct):
    """``ordinal`` is the last one given in ``attempt``; ``handled`` are ids that were acknowledged."""

    attempt: int = -1
    ordinal: int = 0
    outstanding: Outstanding | None = None
    num_executed: int = 0
    acknowledged_at: int | None = None
    handled: list[str] = []
    effects: list[EffectName] = []
    allow: list[EffectName] = []
    autonomy: dict[EffectName, Autonomy] = {}
    on_hold: bool = False
    conflict: bool = False
    hold_ts: int = 0
    """When the newest hold or release was signed: an older one changes nothing."""
    ordered_autonomy: dict[EffectName, Autonomy] = {}
    """As people ordered it at run time; outlives attempts and goes before what the trainer said."""
    was_applied: bool = True
    """Whether the action last acknowledged was."""
    applied_at: list[int] = []
    """Executed steps at which actions were applied, the newest 1,000."""
    num_applied: int = 0
    lost_steps: int = 0
    lost_seconds: float = 0.0
    tried: list[Tried] = []
    num_ranks: int = 1
    lost_gpu_seconds: float = 0.0


class Safety:
    """The rules of one run, and what they must remember.

    Args:
        autonomy: as the policy of this deployment says; goes before what the trainer said, after what people order.
    """

    def __init__(
        self,
        settings: SafetySettings,
        state: SafetyState | None = None,
        autonomy: Mapping[EffectName, Autonomy] | None = None,
    ) -> None:
        self.settings = settings
        self._deployed_autonomy = autonomy or {}
        self.is_blind = False
        """Whether nothing is heard of any run at present."""
        self.state = state or SafetyState()

    def begin_attempt(self, attempt: int) -> None:
        """Ordinals count from 1 again; an action for the attempt before stays outstanding until its ack."""
        self.state.attempt = attempt
        self.state.ordinal = 0
        self.state.conflict = False
        self.state.effects, self.state.allow, self.state.autonomy = [], [], {}

    def started(self, event: Started) -> None:
        """What the trainer can do and its user allows; before this event nothing is allowed."""
        self.state.effects = list(event.effects)
        self.state.allow = list(event.allow)
        self.state.autonomy = dict(event.autonomy)
        self.state.num_ranks = event.num_ranks

    def held(self, on_hold: bool, ts: int) -> bool:
        """Takes a hold or a release; False where a newer one was taken before."""
        if ts < self.state.hold_ts:
            return False
        self.state.on_hold, self.state.hold_ts = on_hold, ts
        return True

    def step(self, ts: int) -> None:
        """Counts a judged step; an outstanding action that can no longer be applied ends."""
        self.is_blind = False
        self.state.num_executed += 1
        outstanding = self.state.outstanding
        if outstanding is not None and ts > outstanding.expires_ts:
            self.state.outstanding = None

    def applicable(self) -> list[EffectName] | None:
        """Effects that a policy may choose from: what the trainer can do and its user allows.

        Where nothing but the reflex is allowed the run is in shadow, and the policy says what it would do if it
        could: None before the trainer has said what it can do.
        """
        state = self.state
        if not state.effects:
            return None
        allowed: list[EffectName] = [each for each in state.effects if each in state.allow and each != "nan_guard"]
        return allowed or list(state.effects)

    def mode(self, effects: Sequence[EffectName]) -> Autonomy:
        """How far these effects may go together: as far as the least free of them."""
        if not effects or self._missing(effects) or self._forbidden(effects):
            return "shadow"
        modes = {self._autonomy(effect) for effect in effects}
        return "shadow" if "shadow" in modes else "approve" if "approve" in modes else "auto"

    def authority(self, effects: Sequence[EffectName]) -> Authority:
        """By what they may be applied without being asked for."""
        is_freed = any(self.state.autonomy.get(effect, "auto") != "auto" for effect in effects)
        return "policy" if is_freed else "run"

    def refusal(self, effects: Sequence[EffectName], is_live: bool, price: Price = Price()) -> str:
        """Why these effects may not be issued now without a person; empty when they may."""
        mode = self.mode(effects)
        return (
            self.prohibition(effects)
            or ("" if mode == "auto" else f"autonomy is {mode}")
            or self.not_now(is_live)
            or self.not_again(price)
        )

    def prohibition(self, effects: Sequence[EffectName]) -> str:
        """Why these effects may not be applied to this run by anyone; empty when they may."""
        missing, forbidden = self._missing(effects), self._forbidden(effects)
        if missing:
            return f"the trainer cannot apply {', '.join(missing)}"
        return f"shadow: {', '.join(forbidden)} is not allowed" if forbidden else ""

    def out_of_bounds(self, effects: Sequence[Effect]) -> str:
        """Which effect goes too far; empty when none does."""
        floor, ceiling = self.settings.lr_floor, self.settings.lr_ceiling
        for effect in effects:
            if isinstance(effect, LrFactor) and not floor <= effect.factor <= ceiling:
                return f"a learning-rate factor of {effect.factor:g} is outside {floor:g} to {ceiling:g}"
        return ""

    def not_now(self, is_live: bool, supersedes: bool = False) -> str:
        """What stands in the way at present, for a person's action as well; that one may supersede another."""
        state = self.state
        if not is_live:
            return "the record is old: judged for the record only"
        if self.is_blind:
            return "`watch` is blind: nothing is heard of any run"
        if state.conflict:
            return "two processes speak for this attempt"
        if state.on_hold:
            return "the run is on hold"
        if state.outstanding is not None and not supersedes:
            return "an action is outstanding"
        return ""

    def not_again(self, price: Price) -> str:
        """Why another automatic action is too much: too soon, too many or too dear."""
        return self._too_soon(price) or self._too_many() or self._too_dear(price)

    def issued(self, outstanding: Outstanding) -> None:
        self.state.ordinal = outstanding.ordinal
        self.state.outstanding = outstanding

    def acknowledged(
        self, action: str, ordinal: int, attempt: int, status: AckStatus = "applied", lost_steps: int = 0
    ) -> Outstanding | None:
        """Takes a trainer's answer; returns the outstanding action that it ends.

        An answer to an action that this state does not know of (it was restored from before) is adopted: its
        ordinal is used up, and it counts where it was applied.
        """
        state = self.state
        if self.is_handled(action):
            return None
        state.handled = [*state.handled, action][-self.settings.num_remembered :]
        if attempt == state.attempt:
            state.ordinal = max(state.ordinal, ordinal)
        state.acknowledged_at = state.num_executed
        outstanding = state.outstanding if state.outstanding and state.outstanding.action == action else None
        state.was_applied = status in ("applied", "interrupted")
        if state.was_applied:
            self._count(outstanding, lost_steps)
        if outstanding is not None:
            state.outstanding = None
        return outstanding

    def is_handled(self, action: str) -> bool:
        """Whether a trainer answered it: what it answers again says nothing new."""
        return action in self.state.handled

    def may_retry_at_once(self) -> None:
        """The last action was refused for a reason that is gone: nothing is gained by waiting."""
        if not self.state.was_applied:
            self.state.acknowledged_at = None

    def num_tried(self, kind: str) -> dict[str, int]:
        """How often the run went back to a checkpoint because of this kind of incident."""
        return {each.checkpoint: each.num for each in self.state.tried if each.kind == kind}

    def _autonomy(self, effect: EffectName) -> Autonomy:
        state = self.state
        said = state.ordered_autonomy.get(effect) or self._deployed_autonomy.get(effect)
        return said or state.autonomy.get(effect, "auto")

    def _missing(self, effects: Sequence[EffectName]) -> list[EffectName]:
        return [effect for effect in effects if effect not in self.state.effects]

    def _forbidden(self, effects: Sequence[EffectName]) -> list[EffectName]:
        return [effect for effect in effects if effect not in self.state.allow]

    def _count(self, outstanding: Outstanding | None, lost_steps: int) -> None:
        state = self.state
        state.num_applied += 1
        state.applied_at = [*state.applied_at, state.num_executed][-_MAX_KEPT_APPLIED:]
        state.lost_steps += lost_steps
        if outstanding is not None:
            state.lost_seconds += outstanding.lost_seconds
            state.lost_gpu_seconds += outstanding.lost_seconds * state.num_ranks
            if outstanding.checkpoint:
                self._count_tried(outstanding)

    def _count_tried(self, outstanding: Outstanding) -> None:
        for each in self.state.tried:
            if (each.checkpoint, each.kind) == (outstanding.checkpoint, outstanding.kind):
                each.num += 1
                return
        tried = Tried(outstanding.checkpoint, outstanding.kind, 1)
        self.state.tried = [*self.state.tried, tried][-_MAX_KEPT_TRIED:]

    def _too_soon(self, price: Price) -> str:
        state, settings = self.state, self.settings
        if state.acknowledged_at is None:
            return ""
        is_urgent = price.is_urgent and state.was_applied
        cooldown = settings.urgent_cooldown_steps if is_urgent else settings.cooldown_steps
        waited = state.num_executed - state.acknowledged_at
        return f"cooldown of {cooldown} steps" if waited < cooldown else ""

    def _too_many(self) -> str:
        state, settings = self.state, self.settings
        if state.num_applied >= settings.max_actions_per_run:
            return f"the run has had its {settings.max_actions_per_run} actions"
        num_lately = sum(at > state.num_executed - 1000 for at in state.applied_at)
        if num_lately >= settings.max_actions_per_1000_steps:
            return f"the last 1,000 steps have had their {settings.max_actions_per_1000_steps} actions"
        return ""

    def _too_dear(self, price: Price) -> str:
        state, settings = self.state, self.settings
        if price.lost_steps and state.lost_steps + price.lost_steps > settings.max_lost_steps:
            return f"the budget of {settings.max_lost_steps} lost steps: {state.lost_steps} are used up"
        if price.lost_seconds and state.lost_seconds + price.lost_seconds > settings.max_lost_seconds:
            return f"the budget of {settings.max_lost_seconds:.0f} seconds: {state.lost_seconds:.0f} are used up"
        gpu_seconds, most = price.lost_seconds * state.num_ranks, settings.max_lost_gpu_seconds
        if gpu_seconds and state.lost_gpu_seconds + gpu_seconds > most:
            return f"the budget of {most:.0f} GPU-seconds: {state.lost_gpu_seconds:.0f} are used up"
        return ""
