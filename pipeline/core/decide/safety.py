"""Whether a chosen action may be issued now. Every refusal has one word of reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from holter.schemas.bounds import Autonomy, EffectName
from holter.schemas.telemetry import Started


@dataclass(frozen=True)
class SafetySettings:
    cooldown_steps: int = 50
    """Executed steps, redone ones counted, between an acknowledgement and the next action."""
    action_lifetime_ms: int = 60_000
    action_window_steps: int = 1000
    max_age_ms: int = 60_000
    """Records older than this when they are judged cause no action."""
    num_remembered: int = 64


class Outstanding(Struct):
    action: str
    ordinal: int
    expires_ts: int
    last_step: int
    effects: list[EffectName]
    incident: str


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


class Safety:
    """The rules of one run, and what they must remember."""

    def __init__(self, settings: SafetySettings, state: SafetyState | None = None) -> None:
        self.settings = settings
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

    def step(self, ts: int) -> None:
        """Counts a judged step; an outstanding action that can no longer be applied ends."""
        self.state.num_executed += 1
        outstanding = self.state.outstanding
        if outstanding is not None and ts > outstanding.expires_ts:
            self.state.outstanding = None

    def mode(self, effects: Sequence[EffectName]) -> Autonomy:
        """How far these effects may go together: as far as the least free of them."""
        state = self.state
        if not effects or any(effect not in state.allow or effect not in state.effects for effect in effects):
            return "shadow"
        modes = {state.autonomy.get(effect, "auto") for effect in effects}
        return "shadow" if "shadow" in modes else "approve" if "approve" in modes else "auto"

    def refusal(self, effects: Sequence[EffectName], is_live: bool) -> str:
        """Why these effects may not be issued now; empty when they may."""
        state = self.state
        missing = [effect for effect in effects if effect not in state.effects]
        if missing:
            return f"the trainer cannot apply {', '.join(missing)}"
        forbidden = [effect for effect in effects if effect not in state.allow]
        if forbidden:
            return f"shadow: {', '.join(forbidden)} is not allowed"
        mode = self.mode(effects)
        if mode != "auto":
            return f"autonomy is {mode}"
        return self._not_now(is_live)

    def issued(self, outstanding: Outstanding) -> None:
        self.state.ordinal = outstanding.ordinal
        self.state.outstanding = outstanding

    def acknowledged(self, action: str, ordinal: int, attempt: int) -> Outstanding | None:
        """Takes a trainer's answer; returns the outstanding action that it ends.

        An answer to an action that this state does not know of (it was restored from before) is adopted: its
        ordinal is used up.
        """
        state = self.state
        if action in state.handled:
            return None
        state.handled = [*state.handled, action][-self.settings.num_remembered :]
        if attempt == state.attempt:
            state.ordinal = max(state.ordinal, ordinal)
        state.acknowledged_at = state.num_executed
        outstanding = state.outstanding
        if outstanding is None or outstanding.action != action:
            return None
        state.outstanding = None
        return outstanding

    def _not_now(self, is_live: bool) -> str:
        state = self.state
        if not is_live:
            return "the record is old: judged for the record only"
        if state.conflict:
            return "two processes speak for this attempt"
        if state.on_hold:
            return "the run is on hold"
        if state.outstanding is not None:
            return "an action is outstanding"
        if state.acknowledged_at is not None:
            waited = state.num_executed - state.acknowledged_at
            if waited < self.settings.cooldown_steps:
                return f"cooldown of {self.settings.cooldown_steps} steps"
        return ""
