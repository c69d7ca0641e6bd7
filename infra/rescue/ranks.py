"""Two ranks in processes of their own, in a gloo group on the loopback."""

from __future__ import annotations

import logging
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed

from holter.infra.ports import allot
from holter.infra.rescue.lockstep import PROJECT
from holter.producers.run import Run, RunSettings

ResultT = TypeVar("ResultT")

_SECONDS = 900.0
_PATIENCE = timedelta(seconds=120)
_LOOK_SECONDS = 0.02


class Unjudged:
    """What the second rank has instead of a lockstep: it keeps step by the gradients that it shares.

    Args:
        folder: of the checkpoints; its part of one is waited for, since no rank saves while another still does.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.run = Run(RunSettings(PROJECT, name, rank=1, num_ranks=2))
        self._folder = folder

    def settle(self, step: int, saves: bool) -> None:
        deadline = time.monotonic() + _PATIENCE.total_seconds()
        while saves and not any(self._folder.rglob(f"rank-00001/*-{step:09d}.json")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the checkpoint of step {step} is not written")
            time.sleep(_LOOK_SECONDS)


def run_two_ranks(lead: Callable[..., ResultT], follow: Callable[..., None], *given: Any) -> ResultT:
    """Does ``lead(*given)`` as rank 0 and ``follow(*given)`` as rank 1; returns what the lead returned.

    Both are new processes: what a process counts of the groups it was in has to be the same on all ranks.

    Raises:
        RuntimeError: a rank failed, or took too long.
    """
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    port = allot(["ranks"], {}, random.SystemRandom())["ranks"]
    processes = [
        context.Process(target=_work, args=(rank, port, theirs, job, given)) for rank, job in enumerate((lead, follow))
    ]
    try:
        for process in processes:
            process.start()
        theirs.close()
        result: ResultT = _result(mine, processes)
        return result
    finally:
        for process in processes:
            process.kill()
            process.join()


def prepare_process() -> None:
    """One thread of torch a process; what Holter says of itself goes nowhere."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    logging.getLogger("holter").setLevel(logging.ERROR)


def _result(mine: Connection, processes: Sequence[BaseProcess]) -> Any:
    try:
        if mine.poll(_SECONDS):
            return mine.recv()
    except EOFError:
        pass
    codes = [process.exitcode for process in processes]
    raise RuntimeError(f"two ranks came to no result (exit codes {codes})")


def _work(rank: int, port: int, pipe: Connection, job: Callable[..., Any], given: tuple[Any, ...]) -> None:
    prepare_process()
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2, timeout=_PATIENCE)
    result = job(*given)
    if rank == 0:
        pipe.send(result)
    distributed.destroy_process_group()
