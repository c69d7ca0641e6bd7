"""The loss scale of mixed precision: a ladder that only goes down."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence


@dataclass(frozen=True)
class LossScaleSettings:
    num_falls: int = 4
    """So many falls with no rise between them within ``within`` records: overflow does not stop."""
    within: int = 40
    floor: float = 1.0
    """At or below this a dynamic scale has nowhere left to go."""


class LossScaleState(Struct):
    last: float = 0.0
    falls: list[tuple[int, int]] = []
    count: int = 0
    at_floor: bool = False


class LossScale:
    def __init__(self, metric: str, settings: LossScaleSettings, state: LossScaleState | None = None) -> None:
        self._metric = metric
        self._settings = settings
        self.state = state or LossScaleState()

    def update(self, step: int, value: float) -> Evidence | None:
        """Takes the scale of one record; a value that never moves is a fixed scale and says nothing."""
        state, settings = self.state, self._settings
        state.count += 1
        before, state.last = state.last, value
        if before == value or before == 0.0:
            return None
        if value > before:
            state.falls.clear()
            state.at_floor = False
            return None
        state.falls = [*(fall for fall in state.falls if fall[0] > state.count - settings.within), (state.count, step)]
        reached_floor = value <= settings.floor and not state.at_floor
        state.at_floor = state.at_floor or reached_floor
        if len(state.falls) < settings.num_falls and not reached_floor:
            return None
        onset, num_falls = state.falls[0][1], len(state.falls)
        state.falls.clear()
        return Evidence(
            "loss_scale", self._metric, value, before, float(num_falls), float(settings.num_falls), "warning", onset
        )

    def restart(self) -> None:
        self.state = LossScaleState()
