"""A norm that has crept up to many times the lowest level it had, while the loss does not fall."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence


@dataclass(frozen=True)
class CreepSettings:
    """Healthy runs, also long ones, stay within six times the lowest level of their gradient norm."""

    ratio: float = 10.0
    rearm_ratio: float = 5.0
    num_levels: int = 2
    """So many levels in a row, one every eight records, must be above."""


class CreepState(Struct):
    num_above: int = 0
    has_fired: bool = False


class Creep:
    def __init__(self, metric: str, settings: CreepSettings, state: CreepState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or CreepState()

    def update(self, step: int, level: float, lowest: float, loss_falls: bool) -> Evidence | None:
        """Takes the level of the norm at the end of a block of records."""
        state, settings = self.state, self._settings
        ratio = level / lowest if lowest > 0.0 else 0.0
        if ratio < settings.rearm_ratio:
            state.has_fired = False
        state.num_above = state.num_above + 1 if ratio >= settings.ratio and not loss_falls else 0
        if state.num_above < settings.num_levels or state.has_fired:
            return None
        state.has_fired = True
        return Evidence("grad_explosion", self._metric, level, lowest, ratio, settings.ratio, "warning", step)

    def restart(self) -> None:
        self.state = CreepState()
