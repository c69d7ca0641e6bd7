"""A loss that slowly leaves the best level it had reached, and the curve that it was on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from msgspec import Struct, field

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.own_curve import OwnCurve
from holter.pipeline.core.detect.phase import Phase


@dataclass(frozen=True)
class DivergenceSettings:
    """A level is the short median, looked at every 8 records."""

    size: float = 0.06
    """The rise above the best level, relative as in :meth:`Phase.relative`."""
    curve_size: float = 0.06
    """Or half that rise, and so far above where the curve of its best levels would be by now, relative likewise."""
    scales: float = 3.0
    """And in scales of the residuals."""
    margin: float = 2.0
    """And over the largest rise that the run has made good by itself."""
    young_margin: float = 0.4
    young_records: float = 512.0
    """A run without records has to rise that much further; the share shrinks to nothing at so many records."""
    progress: float = 0.1
    """Only a run that has come down by this share of its starting level can lose it again."""
    max_fired: int = 2
    """It is said so many times until there is a new best level."""
    num_quiet: int = 8
    """After an incident so many levels are only watched."""
    num_levels: int = 3
    """So many levels in a row must be above."""


class DivergenceState(Struct):
    best: float = math.inf
    best_step: int = 0
    levels: list[float] = []
    num_above: int = 0
    rise: float = 0.0
    rises: list[float] = []
    num_fired: int = 0
    curve: OwnCurve = field(default_factory=OwnCurve)
    """Of its best levels."""


class Divergence:
    def __init__(self, metric: str, settings: DivergenceSettings, state: DivergenceState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or DivergenceState()

    def update(self, step: int, count: int, level: float, scale: float, phase: Phase) -> Evidence | None:
        """Takes a level of a run that is not in an incident, and the number of its records so far."""
        state, settings = self.state, self._settings
        state.levels = [*state.levels[-2:], level]
        smooth = median(state.levels)
        rise = smooth - state.best
        if rise <= scale:
            state.curve.note(count, smooth)
        if rise <= 0.0:
            self._note_best(step, smooth)
            return None
        state.rise = max(state.rise, rise)
        bar = max(settings.margin * max(state.rises, default=0.0), settings.scales * scale)
        bar *= 1.0 + settings.young_margin * max(0.0, 1.0 - count / settings.young_records)
        is_large = rise > bar and self._is_large(rise, count, smooth, phase)
        is_above = is_large and phase.has_learned(state.best, settings.progress)
        state.num_above = state.num_above + 1 if is_above or state.num_above < 0 else 0
        if state.num_above < settings.num_levels or state.num_fired >= settings.max_fired:
            return None
        state.num_fired += 1
        state.num_above = -settings.num_quiet
        unit = max(scale, 1e-300)
        return Evidence(
            "divergence", self._metric, smooth, state.best, rise / unit, bar / unit, "warning", state.best_step,
            "loss divergence", rise / max(bar, 1e-300),
        )  # fmt: skip

    def settle(self) -> None:
        """An incident has ended: what rose in it, if it was made good, is what this run does by itself."""
        state = self.state
        self._note_rise(state.rise)
        state.num_above = -self._settings.num_quiet
        state.levels = []

    def restart(self) -> None:
        """Another run: what was best counts no longer."""
        self.state = DivergenceState()

    def _note_best(self, step: int, level: float) -> None:
        state = self.state
        self._note_rise(state.rise)
        state.best, state.best_step = level, step
        state.rise, state.num_above, state.num_fired = 0.0, 0, 0

    def _is_large(self, rise: float, count: int, level: float, phase: Phase) -> bool:
        """A run that would have come further down by now has lost more than the rise says."""
        settings, best = self._settings, self.state.best
        size = phase.relative(rise, best)
        if size >= settings.size or size < 0.5 * settings.size:
            return size >= settings.size
        return phase.relative(level - self.state.curve.expected(count), best) >= settings.curve_size

    def _note_rise(self, rise: float) -> None:
        if rise > 0.0:
            self.state.rises = sorted([*self.state.rises, rise])[-2:]
