"""Keeps a process on some cores, so that what is measured does not share one with what feeds it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def pin(pid: int, cores: set[int]) -> None:
    """All threads that the process has now; later ones inherit."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)


def split_cores() -> tuple[set[int], set[int]]:
    """One core for what is measured, the others for the rest; the same core where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[-1]}, set(cores[:-1]) or {cores[-1]}
