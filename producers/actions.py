"""Actions that a training loop applies itself, where no ``Guard`` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import get_args

from holter.producers.latch import Latched, Permissions
from holter.schemas.bounds import AckStatus, Autonomy, EffectName
from holter.schemas.control import Effect, effect_name
from holter.schemas.telemetry import EffectReport

_NOT_BY_A_LOOP: dict[EffectName, str] = {
    "nan_guard": "it is the reflex of a Guard",
    "skip_range": "it needs the positions in the data that a Guard keeps",
    "rebuild_stage": "it needs the stages of holter.producers.torch.checkfree",
}
LOOP_EFFECTS = tuple(name for name in get_args(EffectName) if name not in _NOT_BY_A_LOOP)
Answer = Callable[[Latched, AckStatus, str, tuple[EffectReport, ...]], None]


def loop_permissions(allow: Iterable[EffectName], autonomy: Mapping[EffectName, Autonomy] | None) -> Permissions:
    """Raises :class:`ValueError` where a loop cannot apply one of them."""
    allowed = frozenset(allow)
    for name in sorted(allowed):
        if name not in LOOP_EFFECTS:
            reason = _NOT_BY_A_LOOP.get(name, f"known are {', '.join(LOOP_EFFECTS)}")
            raise ValueError(f"{name!r} cannot be allowed to a loop without a Guard: {reason}")
    return Permissions(allowed, allowed, dict(autonomy or {}))


class CannotApply(Exception):
    """Raised in the block of an action: it is refused for this reason, and the loop goes on after the block."""


class PendingAction:
    """One action, to be applied inside its ``with`` block: all of its effects, or none.

    Leaving the block without :meth:`done` answers that it was refused; an exception is answered so and goes on, but
    for :class:`CannotApply`.
    """

    def __init__(self, latched: Latched, answer: Answer) -> None:
        self._latched = latched
        self._answer = answer
        self._is_answered = False

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What is to be done, as in :mod:`holter.schemas.control`."""
        return tuple(self._latched.action.effects)

    @property
    def names(self) -> tuple[EffectName, ...]:
        return tuple(map(effect_name, self.effects))

    @property
    def reason(self) -> str:
        """Why it was issued, in words."""
        return self._latched.action.reason

    def done(
        self,
        before: float | None = None,
        after: float | None = None,
        /,
        **by_effect: tuple[float | None, float | None],
    ) -> None:
        """All effects were applied. The values are those of the one effect, or given by the names of several.

        Raises:
            ValueError: it was answered before, or a name is none of its effects'.
        """
        if self._is_answered:
            raise ValueError("the action was answered already")
        if unknown := sorted(set(by_effect) - set(self.names)):
            raise ValueError(f"the action has no {unknown[0]}; it has {', '.join(self.names)}")
        values = dict.fromkeys(self.names, (before, after)) if len(self.names) == 1 else {}
        values |= {name: by_effect[name] for name in self.names if name in by_effect}
        reports = tuple(EffectReport(name, *values.get(name, (None, None))) for name in self.names)
        self._say("applied", "", reports)

    def refuse(self, reason: str) -> None:
        """Nothing was applied. Further calls do nothing."""
        if not self._is_answered:
            self._say("refused", reason[:2000], ())

    def __enter__(self) -> PendingAction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, CannotApply):
            self.refuse(str(error))
            return True
        why = "the loop left it without done()" if error is None else f"the loop raised {type(error).__name__}: {error}"
        self.refuse(why)
        return False

    def _say(self, status: AckStatus, reason: str, reports: tuple[EffectReport, ...]) -> None:
        self._is_answered = True
        self._answer(self._latched, status, reason, reports)
