"""What each candidate does on each run, computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from holter.pipeline.core.signals import SignalSettings
from tests.scoreboard.folder import runs_of
from tests.scoreboard.rules.holter import Holter
from tests.scoreboard.score import RunScore, score_run
from tests.scoreboard.search.candidates import Candidate
from tests.scoreboard.search.paths import with_values
from tests.scoreboard.truth import LabelledRun


class RunKey(NamedTuple):
    folder: str
    name: str
    family: str


RunScores = dict[RunKey, RunScore]
_runs: list[tuple[RunKey, LabelledRun]] = []
"""Of this process; loaded once."""


def load(folders: Sequence[Path]) -> None:
    """
    Raises:
        FileNotFoundError: one of them is no folder of labelled runs.
    """
    _runs[:] = [(RunKey(folder.name, run.name, run.family), run) for folder in folders for run in runs_of(folder)]


def evaluate(candidate: Candidate) -> RunScores:
    """On all loaded runs."""
    rule = Holter(settings=with_values(SignalSettings(), candidate.choice))
    return {key: score_run(len(run.records), run.labels, rule.events(run.records)) for key, run in _runs}


class Evaluator(AbstractContextManager["Evaluator"]):
    """Remembers every candidate; ``num_processes`` work side by side, each with its own copy of the runs."""

    def __init__(
        self, folders: Sequence[Path], num_processes: int, progress: Callable[[int], None] = lambda done: None
    ) -> None:
        self.known: dict[Candidate, RunScores] = {}
        self._progress = progress
        self._pool = ProcessPoolExecutor(num_processes, initializer=load, initargs=(list(folders),))

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def learn(self, candidates: Iterable[Candidate]) -> None:
        """Evaluates those that are new."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self.known]
        for candidate, scores in zip(new, self._pool.map(evaluate, new), strict=True):
            self.known[candidate] = scores
            self._progress(len(self.known))
