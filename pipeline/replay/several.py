"""Many logs, one after the other or in processes of their own; one that cannot be used does not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.replay import OnProgress, Replayed, ReplayOptions, replay


@dataclass(frozen=True)
class Unusable:
    """A file that could not be replayed, and why."""

    path: Path
    reason: str


Result = Replayed | Unusable
Advance = Callable[[float], None]
"""Is told how much more is done, in files."""


def replay_all(files: Sequence[Path], options: ReplayOptions, num_processes: int, advance: Advance) -> list[Result]:
    """One result a file, in the order of the files."""
    if num_processes == 1 or len(files) == 1:
        return [_replay_here(path, options, advance) for path in files]
    with ProcessPoolExecutor(min(num_processes, len(files))) as pool:
        return _gathered({pool.submit(attempt, path, options): path for path in files}, files, advance)


def attempt(path: Path, options: ReplayOptions, on_progress: OnProgress | None = None) -> Result:
    """What became of one file."""
    try:
        return replay(path, options, on_progress)
    except UnreadableLog as error:
        return Unusable(path, str(error))


def _replay_here(path: Path, options: ReplayOptions, advance: Advance) -> Result:
    told = 0.0

    def on_progress(share: float) -> None:
        nonlocal told
        advance(share - told)
        told = share

    result = attempt(path, options, on_progress)
    advance(1.0 - told)
    return result


def _gathered(futures: Mapping[Future[Result], Path], files: Sequence[Path], advance: Advance) -> list[Result]:
    results: dict[Path, Result] = {}
    for future in as_completed(futures):
        path = futures[future]
        try:
            results[path] = future.result()
        except BrokenProcessPool:
            results[path] = Unusable(path, "its process died: is there too little memory?")
        advance(1.0)
    return [results[path] for path in files]
