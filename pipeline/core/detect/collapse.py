"""A loss that is nothing, or one value, for many records: the target leaks, or nothing moves any more."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence


@dataclass(frozen=True)
class CollapseSettings:
    num_zeros: int = 4
    """So many losses that are exactly zero, and no larger one between them than ``level_share`` of the run's first."""
    level_share: float = 1e-4
    usual_zeros: int = 32
    """So many it takes where zeros have come and gone, or were there among the first ``first_records``,"""
    times_usual: int = 3
    """and so many times the most that have come in a row."""
    first_records: int = 3


class CollapseState(Struct):
    num_zeros: int = 0
    """Since the last loss that was something."""
    longest: int = 0
    """The most zeros that a loss that was something came after."""
    has_fired: bool = False


class Collapse:
    """Zeros that come and go are how some losses are, e.g. one that is clipped.

    >>> collapse = Collapse("train/loss", CollapseSettings())
    >>> [collapse.note_zero(at, at) is not None for at in range(50, 56)]
    [False, False, False, True, False, False]
    """

    def __init__(self, metric: str, settings: CollapseSettings, state: CollapseState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or CollapseState()

    def note_zero(self, step: int, count: int) -> Evidence | None:
        """Takes a loss that is exactly zero."""
        state, settings = self.state, self._settings
        state.num_zeros += 1
        are_usual = state.longest > 0 or count - state.num_zeros < settings.first_records
        least = max(settings.usual_zeros, settings.times_usual * state.longest) if are_usual else settings.num_zeros
        if state.has_fired or state.num_zeros < least:
            return None
        state.has_fired = True
        return Evidence("collapse", self._metric, 0.0, 0.0, float(state.num_zeros), 0.0, "critical", step)

    def note_other(self, loss: float, start: float) -> None:
        """Takes a loss that is not; to be called after a zero."""
        state = self.state
        if not abs(loss) <= self._settings.level_share * abs(start):
            state.longest = max(state.longest, state.num_zeros)
            state.num_zeros = 0

    def restart(self) -> None:
        self.state = CollapseState()
