"""A run that had learned and gets no further: no trouble in itself, but worth a word."""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.phase import Phase


@dataclass(frozen=True)
class PlateauSettings:
    """A level is the short median, looked at every 8 records."""

    num_records: int = 512
    """So many without progress, and as many as the run took to come where it is."""
    scales: float = 0.5
    """Progress is a level lower by more than this many scales of the residuals,"""
    size: float = 0.002
    """and by more than this, relative as in :meth:`Phase.relative`."""
    progress: float = 0.1
    """Only a run that has come down by this share of its starting level can stand still."""


class PlateauState(Struct):
    best: float = math.inf
    best_step: int = 0
    best_count: int = 0
    is_told: bool = False


class Plateau:
    """Follows the lowest level of the loss."""

    def __init__(self, metric: str, settings: PlateauSettings, state: PlateauState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or PlateauState()

    def update(self, step: int, count: int, level: float, scale: float, phase: Phase) -> Evidence | None:
        """Takes a level of a run that is not in an incident, and the number of its records so far; says once that it
        stands still."""
        state, settings = self.state, self._settings
        gain = state.best - level
        if gain > settings.scales * scale and phase.relative(gain, level) > settings.size:
            self.state = PlateauState(level, step, count)
            return None
        num_idle = count - state.best_count
        if state.is_told or num_idle < max(settings.num_records, state.best_count):
            return None
        if not phase.has_learned(state.best, settings.progress):
            return None
        state.is_told = True
        score = num_idle / settings.num_records
        return Evidence("plateau", self._metric, level, state.best, score, 1.0, "info", state.best_step)

    def restart(self) -> None:
        """Another run: what it had reached counts no longer."""
        self.state = PlateauState()
