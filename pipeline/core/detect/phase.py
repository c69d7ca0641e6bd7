"""Where a run stands: how many steps one record is, how far it has come, and whether another run began in the log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from msgspec import Struct

_SAME_RATE = 1.05


@dataclass(frozen=True)
class PhaseSettings:
    coarse_steps: int = 4
    """From so many steps a record, one record stands for many and a single one may count."""
    num_start: int = 5
    """The level a run began with is the median of so many losses, those that are zero left out."""
    confirmations: int = 3
    """A new distance between records is believed when it has come so many times in a row."""


class PhaseState(Struct):
    last_step: int = -1
    steps_a_record: int = 1
    gap: int = 0
    num_same: int = 0
    num_records: int = 0
    start_losses: list[float] = []
    went_back: bool = False
    rate: float = 0.0
    most_rate: float = 0.0


class Phase:
    """Follows the steps and the finite losses of one run."""

    __slots__ = ("_settings", "is_coarse", "state")

    def __init__(self, settings: PhaseSettings, state: PhaseState | None = None) -> None:
        self._settings = settings
        self.state = state or PhaseState()
        self.is_coarse = self.state.steps_a_record >= settings.coarse_steps

    def advance(self, step: int) -> None:
        """Takes the step of a record that has a loss."""
        state = self.state
        gap = step - state.last_step
        state.last_step = step
        if gap == state.gap:
            if state.num_same < self._settings.confirmations:
                self._confirm()
        elif gap > 0:
            state.gap, state.num_same = gap, 0
        elif 2 * step <= step - gap:
            state.went_back = True

    def note_loss(self, loss: float) -> None:
        """Takes a finite loss."""
        state = self.state
        state.num_records += 1
        if loss and len(state.start_losses) < self._settings.num_start:
            state.start_losses.append(loss)

    def begins_cycle(self, rate: float) -> bool:
        """Takes the learning rate; whether one that had decayed has risen at once, as warm restarts do (Loshchilov and
        Hutter 2017): to a rate that the run has had, and not by a leap to one that it has not."""
        state = self.state
        before, state.rate = state.rate, rate
        has_decayed = 0.0 < 2.0 * before < state.most_rate
        has_restarted = has_decayed and 2.0 * before <= rate <= _SAME_RATE * state.most_rate
        state.most_rate = max(state.most_rate, min(rate, 2.0 * before) if before > 0.0 else rate)
        return has_restarted

    def start_level(self) -> float:
        """The loss a run began with; NaN before any."""
        losses = self.state.start_losses
        return median(losses) if losses else math.nan

    def has_learned(self, best: float, share: float) -> bool:
        """Whether the run has come down by this share of its starting level; not while that is unknown."""
        start = self.start_level()
        return start - best >= share * abs(start)

    def begin_run(self) -> None:
        """Another run goes on in the same log: its progress is counted from here."""
        state = self.state
        state.start_losses.clear()
        state.num_records = 0
        state.went_back = False
        state.rate = state.most_rate = 0.0

    def relative(self, rise: float, level: float, scale: float = 0.0) -> float:
        """A rise as a share of what the run has reached and of what it has come from, whichever is larger."""
        start = self.start_level()
        reference = max(abs(level), 0.0 if math.isnan(start) else abs(start) / 3.0, 2.0 * scale, 1e-12)
        return rise / reference

    def _confirm(self) -> None:
        state = self.state
        state.num_same += 1
        if state.num_same >= self._settings.confirmations - 1:
            state.steps_a_record = state.gap
            self.is_coarse = state.gap >= self._settings.coarse_steps
