"""One training in which Holter's calls are made or left out, in turns of a few steps.

Both sides have the same weights at the same places in memory. Two trainings beside each other have not, and a step of
one then takes 2 % more than that of the other, and sometimes twice that, where neither wears anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holter.infra.bench.own_time import OwnTime
from holter.infra.bench.turns import StepSeconds


class Switched:
    """The loop calls :meth:`begin_step` where each step begins; the first turn is one without Holter.

    The first turn with it is one step short: every later one begins with a step whose number, of those that Holter
    sees and counted from 1, is a multiple of ``block_steps``.
    """

    def __init__(self, block_steps: int, cpu_seconds: Callable[[], float], own: OwnTime) -> None:
        self.plain: list[StepSeconds] = []
        """The mean step of each turn."""
        self.worn: list[StepSeconds] = []
        self._block_steps = block_steps
        self._cpu_seconds, self._own = cpu_seconds, own
        self._num_left = 0
        self._block_size = 0
        self._begun: StepSeconds | None = None

    def begin_step(self) -> None:
        """Ends the step before, and with the last of a turn the turn."""
        if self._num_left == 0:
            self._change()
        self._num_left -= 1

    def _change(self) -> None:
        now = StepSeconds(time.perf_counter(), self._cpu_seconds(), self._own.seconds)
        is_first = self._begun is None
        if self._begun is not None:
            means = ((after - before) / self._block_size for after, before in zip(now, self._begun, strict=True))
            (self.plain if self._own.is_off else self.worn).append(StepSeconds(*means))
        self._own.is_off = is_first or not self._own.is_off
        is_short = not self._own.is_off and not self.worn
        self._num_left = self._block_size = self._block_steps - is_short
        self._begun = now
