"""Two trainings in one process that take turns of a few steps each, so that what slows the machine slows both."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple


class StepSeconds(NamedTuple):
    """``wall`` by the clock, ``cpu`` as the training's processor time is told, ``own`` the part that is Holter's."""

    wall: float
    cpu: float
    own: float


class Side:
    """One of the two: its loop calls :meth:`begin_step` where each step begins.

    The first turn is one step short: every later one begins with a step whose number, counted from 1, is a multiple
    of ``block_steps``.
    """

    def __init__(self, block_steps: int, cpu_seconds: Callable[[], float], own_seconds: Callable[[], float]) -> None:
        self.steps: list[StepSeconds] = []
        self.error: BaseException | None = None
        self.may_go = threading.Semaphore(0)
        self.other: Side | None = None
        self._block_steps = block_steps
        self._cpu_seconds, self._own_seconds = cpu_seconds, own_seconds
        self._begun: StepSeconds | None = None

    def begin_step(self) -> None:
        """Ends the step before; waits where the other's turn begins."""
        if self._begun is None:
            self._pass_on()
        else:
            self.steps.append(StepSeconds(*(now - then for now, then in zip(self._now(), self._begun, strict=True))))
            if (len(self.steps) + 1) % self._block_steps == 0:
                self._pass_on()
        self._begun = self._now()

    def run(self, training: Callable[[Side], None]) -> None:
        self.may_go.acquire()
        try:
            training(self)
        except BaseException as error:  # told on the thread that waits for both
            self.error = error
        finally:
            if self.other is not None:
                self.other.other = None
                self.other.may_go.release()

    def blocks(self) -> list[list[StepSeconds]]:
        """The steps by turn, without the short first and the last."""
        first, size = self._block_steps - 1, self._block_steps
        return [self.steps[at : at + size] for at in range(first, len(self.steps) - size + 1, size)]

    def _pass_on(self) -> None:
        if self.other is not None:
            self.other.may_go.release()
            self.may_go.acquire()

    def _now(self) -> StepSeconds:
        return StepSeconds(time.perf_counter(), self._cpu_seconds(), self._own_seconds())


def take_turns(first: Side, second: Side, training: Callable[[Side], None]) -> None:
    """Runs the training on both sides, each on a thread of its own; raises what one of them raised."""
    first.other, second.other = second, first
    threads = [threading.Thread(target=side.run, args=(training,)) for side in (first, second)]
    for thread in threads:
        thread.start()
    first.may_go.release()
    for thread in threads:
        thread.join()
    for side in (first, second):
        if side.error is not None:
            raise side.error
