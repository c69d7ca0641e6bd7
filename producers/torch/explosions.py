"""Which gradient norms are so far above a run's own that their update is left out.

The detectors' own view of the gradient norm judges, here in the trainer and at once. What the loss does is left to
them: every rank has a loss of its own, and of a norm that all ranks share each of them makes the same decision. So
only what is evidence whatever the loss does is left out: a multiple of the level that progress does not explain. A
level that has crept up is none of it; leaving out one update cures one bad gradient.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.exceedances import Exceedances
from holter.pipeline.core.detect.explosion import Explosion
from holter.pipeline.core.detect.phase import Phase
from holter.pipeline.core.detect.stack import DetectorSettings
from holter.pipeline.core.detect.view import MetricView
from holter.pipeline.core.detect.view_state import ViewState
from holter.schemas.telemetry import GRAD_NORM


@dataclass(frozen=True)
class SkipExplosions:
    """Lets a ``Guard`` leave out the updates of exploding gradients by itself: at most ``max_skips`` among
    ``within_steps`` steps. Beyond that they are taken, and it says so: what lasts is for the global view to decide.
    """

    max_skips: int = 5
    within_steps: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.max_skips <= self.within_steps:
            raise ValueError("SkipExplosions needs 1 ≤ max_skips ≤ within_steps")


class JudgeState(Struct):
    view: ViewState
    seen: list[tuple[int, int]]
    skipped: list[int]


class ExplosionJudge:
    """Takes the gradient norms of a run, in the order of their steps."""

    def __init__(self, settings: SkipExplosions) -> None:
        detectors = DetectorSettings()
        self._settings = settings
        self._detectors = detectors
        self._view = MetricView(detectors.view)
        self._explosion = Explosion("grad_explosion", GRAD_NORM, detectors.norms, Exceedances())
        self._phase = Phase(detectors.phase)
        self._skipped: deque[int] = deque(maxlen=settings.max_skips)

    @property
    def level(self) -> float:
        """The median of the last norms; NaN before the first."""
        return self._view.level()

    def judge(self, step: int, norm: float) -> Evidence | None:
        """Takes a norm, and says whether it explodes. One that is not finite teaches nothing."""
        if norm - norm != 0.0:
            return None
        view, found = self._view, None
        reading = view.observe(step, norm)
        if reading is not None:
            found = self._explosion.judge(reading._replace(drift=0.0), step, view.count, self._phase)
            if found is not None and found.score < self._detectors.progress_ratio:
                found = None
        if (found is not None) is not view.is_suspended:
            self._suspend(found is not None)
        return found

    def single_limit(self) -> float:
        """Above this one norm explodes, whatever came before it; infinite while too little is known."""
        return self._explosion.single_limit(self._view, self._phase)

    def may_skip(self, step: int) -> bool:
        """Whether the budget allows to leave out this step."""
        skipped, settings = self._skipped, self._settings
        return len(skipped) < settings.max_skips or step - skipped[0] >= settings.within_steps

    def note_skip(self, step: int) -> None:
        self._skipped.append(step)

    def state(self) -> bytes:
        return msgspec.msgpack.encode(JudgeState(self._view.state(), self._explosion.seen.kept, list(self._skipped)))

    def load(self, raw: bytes) -> None:
        state = msgspec.msgpack.decode(raw, type=JudgeState)
        self._view = MetricView(self._detectors.view, state=state.view)
        self._explosion.seen = Exceedances(state.seen)
        self._skipped = deque(state.skipped, self._settings.max_skips)

    def _suspend(self, suspended: bool) -> None:
        """What comes in an explosion is not what the run does by itself."""
        self._view.is_suspended = suspended
        if suspended:
            self._view.forgive()
        else:
            self._view.settle()


def is_above(norm: float, limit: float) -> bool:
    """Whether a finite norm is above a limit."""
    return limit < norm < math.inf
