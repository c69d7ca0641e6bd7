"""Starts the processes of a pipeline, and starts those anew that die."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from holter.producers.notices import logger
from holter.producers.torch.checkfree.membership import generation_key, rebuilt_key
from holter.producers.torch.checkfree.order import sources

Start = Callable[[int, int], BaseProcess]
"""Starts the process of a stage, which finds the store at this port of the loopback."""


class Unrecoverable(RuntimeError):
    """What was lost cannot be made of what is left; a checkpoint is needed."""


class Supervisor:
    """Keeps the store through which stages find each other; holds no weights and takes no part in the training.

    It is for the processes of one host, by the loopback. On several hosts the same is done by whatever starts the
    processes there: it has to put the next generation, and what it lost, into a store that outlives them.

    Args:
        swaps: whether end stages can be rebuilt.
        max_replacements: over all stages; more deaths than that have a cause that a replacement does not cure.
    """

    def __init__(self, num_stages: int, start: Start, *, swaps: bool = False, max_replacements: int = 16) -> None:
        self._num_stages, self._start, self._swaps = num_stages, start, swaps
        self._replacements_left = max_replacements
        self._generation = 0
        self._lost: set[int] = set()
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
        self._running: dict[int, BaseProcess] = {}

    def run(self) -> None:
        """Until every stage has ended by itself.

        Raises:
            Unrecoverable: the stages that are left are ended.
        """
        try:
            self.store.set(generation_key(0), "")
            self._running = {stage: self._start(stage, self.store.port) for stage in range(self._num_stages)}
            while self._running:
                wait([process.sentinel for process in self._running.values()])
                died = self._reap()
                if died:
                    self._replace(died)
        finally:
            for process in self._running.values():
                process.kill()
                process.join()

    def _reap(self) -> set[int]:
        ended = [stage for stage, process in self._running.items() if not process.is_alive()]
        codes = {stage: self._running.pop(stage).exitcode for stage in ended}
        return {stage for stage, code in codes.items() if code != 0}

    def _replace(self, died: set[int]) -> None:
        if all(self.store.check([rebuilt_key(self._generation, stage)]) for stage in self._lost):
            self._lost = set()
        self._lost |= died
        self._replacements_left -= len(died)
        self._check()
        self._generation += 1
        logger.warning("stage %s died and is rebuilt of its neighbours", ", ".join(map(str, sorted(died))))
        self.store.set(generation_key(self._generation), ",".join(map(str, sorted(self._lost))))
        self._running |= {stage: self._start(stage, self.store.port) for stage in sorted(died)}

    def _check(self) -> None:
        if self._replacements_left < 0:
            raise Unrecoverable("stages die again and again: look for the cause in their own output")
        if len(self._running) + len(self._lost) < self._num_stages:
            raise Unrecoverable("a stage died when others had ended already")
        for stage in self._lost:
            try:
                needed = sources(stage, self._num_stages, self._swaps)
            except ValueError as error:
                raise Unrecoverable(f"{error}; go on from a checkpoint") from None
            if self._lost & set(needed):
                raise Unrecoverable(f"neighbouring stages are lost ({sorted(self._lost)}): go on from a checkpoint")
