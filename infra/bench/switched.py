"""One training in which Holter's calls are made or left out, in turns of a few steps.

Both sides have the same weights at the same places in memory. Two trainings beside each other have not, and a step of
one then takes 2 % more than that of the other, and sometimes twice that, where neither wears anything.

What a step leaves to other threads and processes, they do during the next one: a turn's first step counts for neither
side. The turns are short, since a machine's speed changes within seconds; one in which a checkpoint is saved, by its
second step, is long enough for what is done about it in the background.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from holter.infra.bench.own_time import OwnTime
from holter.infra.bench.turns import StepSeconds

_TURN_STEPS = 3
_SAVING_TURN_STEPS = 6
_NUM_ORDINARY = 5
"""Turns with Holter from one that saves to the next."""
SAVE_EVERY = _NUM_ORDINARY * _TURN_STEPS + _SAVING_TURN_STEPS
"""Steps that Holter sees, from one checkpoint to the next."""
COUNTED_SAVING_STEPS = _SAVING_TURN_STEPS - 1


def num_steps_of(num_turns: int) -> int:
    """Steps of a training with so many turns with Holter, at least, between one more without."""
    num_saving = num_turns // (_NUM_ORDINARY + 1) + 1
    return 2 * (num_turns + 1) * _TURN_STEPS + num_saving * (_SAVING_TURN_STEPS - _TURN_STEPS)


class Switched:
    """The loop calls :meth:`begin_step` where each step begins; the first turn is one without Holter."""

    def __init__(self, cpu_seconds: Callable[[], float], own: OwnTime) -> None:
        self.plain: list[StepSeconds] = []
        """The mean step of each turn, without its first step."""
        self.worn: list[StepSeconds] = []
        self.saves: list[bool] = []
        """Whether a checkpoint was saved in the turn of ``worn``."""
        self._cpu_seconds, self._own = cpu_seconds, own
        self._own.is_off = False
        self._sizes = _worn_sizes()
        self._size = self._num_left = 0
        self._begun: StepSeconds | None = None

    def begin_step(self) -> None:
        """Ends the step before, and with the last of a turn the turn."""
        if self._num_left == 0:
            self._change()
        elif self._num_left == self._size - 1:
            self._begun = self._now()
        self._num_left -= 1

    def _change(self) -> None:
        if self._begun is not None:
            means = ((now - then) / (self._size - 1) for now, then in zip(self._now(), self._begun, strict=True))
            (self.plain if self._own.is_off else self.worn).append(StepSeconds(*means))
            if not self._own.is_off:
                self.saves.append(self._size == _SAVING_TURN_STEPS)
        self._own.is_off = not self._own.is_off
        self._size = self._num_left = _TURN_STEPS if self._own.is_off else next(self._sizes)

    def _now(self) -> StepSeconds:
        return StepSeconds(time.perf_counter(), self._cpu_seconds(), self._own.seconds)


def _worn_sizes() -> Iterator[int]:
    """The first turn is that of a checkpoint without the two steps up to it, so that the others' second step saves."""
    yield _SAVING_TURN_STEPS - 2
    while True:
        yield from [_TURN_STEPS] * _NUM_ORDINARY
        yield _SAVING_TURN_STEPS
