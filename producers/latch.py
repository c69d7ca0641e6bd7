"""The fence between an action that arrived and a training run: what may pass, when, and what is answered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from holter.schemas.bounds import AckStatus, Autonomy, EffectName
from holter.schemas.control import Action, effect_name
from holter.schemas.digests import digest

_MAX_REMEMBERED = 1_000


@dataclass(frozen=True)
class Permissions:
    """What a trainer is able to do, what its user allows, and how far (``auto`` where nothing is said)."""

    capabilities: frozenset[EffectName] = frozenset()
    allow: frozenset[EffectName] = frozenset()
    autonomy: Mapping[EffectName, Autonomy] = field(default_factory=dict)

    def objection(self, action: Action) -> str | None:
        """Why an effect may not be applied, None where all may.

        What the user does not allow is never applied. How far an allowed effect goes by itself is the run's own word
        only until a person, or a policy that a person set, says otherwise.
        """
        for name in map(effect_name, action.effects):
            if name not in self.capabilities:
                return f"this trainer cannot apply {name}"
            if name not in self.allow:
                return f"{name} is not in what the user allows"
            if action.authority == "run" and self.autonomy.get(name, "auto") != "auto":
                return f"the autonomy of {name} is {self.autonomy[name]}"
        return None


def known_effects(allow: Iterable[EffectName]) -> frozenset[EffectName]:
    """What a user allows, as a set.

    Raises:
        ValueError: there is no such effect.
    """
    names: frozenset[EffectName] = frozenset(allow)
    if unknown := names.difference(get_args(EffectName)):
        raise ValueError(f"allow has {sorted(unknown)}; known are {', '.join(sorted(get_args(EffectName)))}")
    return names


class Latched(NamedTuple):
    """An action that may be applied at the boundary it was taken at."""

    action: Action
    digest: str
    latched_ms: float


class Answer(NamedTuple):
    """What to acknowledge without having applied anything now."""

    action: Action
    status: AckStatus
    reason: str
    digest: str = ""
    """Of what was applied under this id before, where it was."""


class ActionGate:
    """Lets through at most one action at a time, in ordinal order, once. Pure: time and step are passed in.

    It passes only actions of this project, run and attempt, with an ordinal above the last handled, an issuer epoch
    not below the highest seen, unexpired by the trainer's clock, inside their step window, all of whose effects the
    permissions cover, and none while the run is on hold. Everything else addressed to this attempt gets an
    :class:`Answer`; what is addressed to others gets none.
    """

    def __init__(self, project: str, run: str, attempt: int, permissions: Permissions) -> None:
        self.permissions = permissions
        self._project = project
        self._run = run
        self._attempt = attempt
        self._last_ordinal = 0
        self._highest_epoch = 0
        self._latched: Latched | None = None
        self._applied: OrderedDict[str, str] = OrderedDict()

    @property
    def is_latched(self) -> bool:
        return self._latched is not None

    def begin_attempt(self, attempt: int) -> None:
        """What was addressed to the attempt before can apply no more. Epochs are kept: they outlive attempts."""
        self._attempt = attempt
        self._last_ordinal = 0
        self._latched = None

    def see_epoch(self, epoch: int) -> bool:
        """Whether a record of this issuer epoch still counts."""
        self._highest_epoch = max(self._highest_epoch, epoch)
        return epoch == self._highest_epoch

    def offer(self, action: Action, body: bytes, now_ms: float) -> list[Answer]:
        """Latches an action, or says what to answer. ``body`` are the bytes whose signature was verified."""
        if (action.project, action.run, action.attempt) != (self._project, self._run, self._attempt):
            return []
        body_digest = digest(body)
        if self._latched is not None and self._latched.digest == body_digest:
            return []
        objection = self._objection(action, now_ms)
        if objection is not None:
            return [objection]
        superseded, self._latched = self._latched, Latched(action, body_digest, now_ms)
        if superseded is None:
            return []
        return [Answer(superseded.action, "refused", f"superseded by ordinal {action.ordinal}")]

    def is_due(self, step: int, now_ms: float) -> bool:
        """Whether the boundary after ``step`` has to do something about what is latched."""
        latched = self._latched
        return latched is not None and (now_ms > latched.action.expires_ts or step >= latched.action.first_step)

    def take(self, step: int, now_ms: float, on_hold: bool) -> Latched | Answer | None:
        """What the boundary after ``step`` is to do: apply, answer, or (None) nothing yet."""
        if self._latched is None:
            return None
        if not self.is_due(step, now_ms):
            return None
        latched, action = self._latched, self._latched.action
        self._latched = None
        self._last_ordinal = action.ordinal
        if now_ms > action.expires_ts:
            return Answer(action, "expired", "its time was over at the boundary")
        if step > action.last_step:
            return Answer(action, "expired", f"its last step was {action.last_step}, the run is at {step}")
        if on_hold:
            return Answer(action, "refused", "the run is on hold")
        if action.issuer_epoch < self._highest_epoch:
            return Answer(action, "refused", _epoch_reason(action, self._highest_epoch))
        return latched

    def record_applied(self, latched: Latched) -> None:
        """Remembers what was applied under an id, to answer when it is sent again."""
        self._applied[latched.action.id] = latched.digest
        if len(self._applied) > _MAX_REMEMBERED:
            self._applied.popitem(last=False)

    def _objection(self, action: Action, now_ms: float) -> Answer | None:
        if not self.see_epoch(action.issuer_epoch):
            return Answer(action, "refused", _epoch_reason(action, self._highest_epoch))
        if action.id in self._applied:
            return Answer(action, "refused", "this id was handled before", self._applied[action.id])
        last = max(self._last_ordinal, self._latched.action.ordinal if self._latched else 0)
        if action.ordinal <= last:
            return Answer(action, "refused", f"ordinal {action.ordinal} is not above {last}, the last one met")
        if now_ms > action.expires_ts:
            self._last_ordinal = action.ordinal
            return Answer(action, "expired", "its time was over when it came")
        reason = self.permissions.objection(action)
        if reason is None:
            return None
        self._last_ordinal = action.ordinal
        return Answer(action, "refused", reason)


def _epoch_reason(action: Action, highest: int) -> str:
    return f"issuer epoch {action.issuer_epoch} is below {highest}, the highest seen"
