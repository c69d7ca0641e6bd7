"""A loss that is nothing, or one value, for many records: the target leaks, or nothing moves any more."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence


@dataclass(frozen=True)
class CollapseSettings:
    num_zeros: int = 4
    """So many losses that are exactly zero among ``within`` records."""
    within: int = 32
    level_share: float = 1e-4
    """And the level no more than this share of the one that the run began with."""


class CollapseState(Struct):
    zeros: list[int] = []
    count: int = 0
    has_fired: bool = False


class Collapse:
    def __init__(self, metric: str, settings: CollapseSettings, state: CollapseState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or CollapseState()

    def note_zero(self, step: int, count: int, level_share: float) -> Evidence | None:
        """Takes a loss that is exactly zero; ``level_share`` is the level over that the run began with."""
        state, settings = self.state, self._settings
        state.zeros = [*(kept for kept in state.zeros if kept > count - settings.within), count][-settings.num_zeros :]
        if state.has_fired or len(state.zeros) < settings.num_zeros or level_share > settings.level_share:
            return None
        state.has_fired = True
        return Evidence("collapse", self._metric, 0.0, 0.0, float(len(state.zeros)), 0.0, "critical", step)

    def restart(self) -> None:
        self.state = CollapseState()
