"""How far back a level of the loss throws a run: to the step at which it last had that level on its way down."""

from __future__ import annotations

import math

from msgspec import Struct

MAX_MARKS = 64


class ProgressState(Struct):
    steps: list[int] = []
    levels: list[float] = []
    every: int = 1
    next_mark: int = 0


class Progress:
    """The curve of a run's loss in at most 64 marks: when they are full every second one goes.

    >>> progress = Progress()
    >>> for step in range(0, 400, 10):
    ...     if progress.is_due(step):
    ...         progress.mark(step, 4.0 - step / 200)
    >>> round(progress.steps_back(390, 3.0))  # a loss of 3.0 is what the run had at step 200
    190
    """

    def __init__(self, state: ProgressState | None = None) -> None:
        self.state = state or ProgressState()

    def is_due(self, step: int) -> bool:
        return step >= self.state.next_mark

    def mark(self, step: int, level: float) -> None:
        """Takes the level of the loss at a step with no incident; one that is not finite is left out."""
        if not math.isfinite(level):
            return
        state = self.state
        state.steps.append(step)
        state.levels.append(level)
        if len(state.steps) >= MAX_MARKS:
            state.steps, state.levels = state.steps[::2], state.levels[::2]
            state.every *= 2
        state.next_mark = step + state.every

    def rewind(self, step: int) -> None:
        state = self.state
        while state.steps and state.steps[-1] > step:
            state.steps.pop()
            state.levels.pop()
        state.next_mark = state.steps[-1] + state.every if state.steps else 0

    def steps_back(self, step: int, level: float) -> float:
        """Steps from the last time that the loss was as high as ``level`` to ``step``; NaN where nothing is known.

        A level that the run never had is that of its beginning.
        """
        state = self.state
        later = None
        for at, was in zip(reversed(state.steps), reversed(state.levels), strict=True):
            if was >= level:
                return step - (at if later is None else _crossing(at, was, *later, level))
            later = (at, was)
        return step - state.steps[0] if state.steps else math.nan


def _crossing(at: int, was: float, later_at: int, later_was: float, level: float) -> float:
    share = (was - level) / (was - later_was) if was > later_was else 0.0
    return at + share * (later_at - at)
