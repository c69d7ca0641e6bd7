"""A metric that has left its level for another and stays there: what it was held against is over.

No trouble in itself, as where a schedule drops the rate: it never begins an incident.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.phase import Phase


@dataclass(frozen=True)
class LevelShiftSettings:
    """A level is the short median, looked at every 8 records."""

    num_levels: int = 6
    """So many levels before and so many after, none of one side among those of the other."""
    scales: float = 3.0
    """The gap between the two sides, in scales of the residuals,"""
    size: float = 0.02
    """and relative as in :meth:`Phase.relative`."""
    steadiness: float = 0.5
    """Either side keeps within this share of the gap: a slope is no shift."""


class LevelShiftState(Struct):
    levels: list[float] = []
    steps: list[int] = []


class LevelShift:
    """Holds the last levels of a run that is in no incident against those before them, or before the incident: what was
    the baseline in it is over where the run goes on at another level."""

    def __init__(self, metric: str, settings: LevelShiftSettings, state: LevelShiftState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or LevelShiftState()

    def update(self, step: int, level: float, scale: float, phase: Phase) -> Evidence | None:
        """Takes a level; says so once where the last ones are a new one."""
        state, num = self.state, self._settings.num_levels
        state.levels = [*state.levels, level][-2 * num :]
        state.steps = [*state.steps, step][-2 * num :]
        bar = self._settings.scales * scale
        if len(state.levels) < 2 * num or abs(level - state.levels[0]) <= bar:  # the gap is no wider
            return None
        before, after = state.levels[:num], state.levels[num:]
        gap = max(min(after) - max(before), min(before) - max(after))
        if not gap > bar or abs(phase.relative(gap, before[-1])) < self._settings.size:
            return None
        if max(_spread(before), _spread(after)) > self._settings.steadiness * gap:
            return None
        onset = state.steps[num]
        self.begin_level()
        unit = max(scale, 1e-300)
        return Evidence(
            "level_shift", self._metric, level, before[-1], gap / unit, self._settings.scales, "info", onset
        )

    def begin_level(self) -> None:
        """The new level is known: the next shift is from it."""
        del self.state.levels[: -self._settings.num_levels]
        del self.state.steps[: -self._settings.num_levels]

    def restart(self) -> None:
        """What comes next has nothing to do with what was."""
        self.state = LevelShiftState()


def _spread(levels: list[float]) -> float:
    return max(levels) - min(levels)
