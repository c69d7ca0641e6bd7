"""All trials of a table: several at a time, each kept as it ends, so that an interrupted campaign goes on."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.ordering import REMEDIES, Recovery, RecoveryResult, run_recovery
from holter.infra.stabilisers.setting import (
    CELLS,
    FAULTS,
    LONG,
    ORDERING,
    QUICK,
    QUICK_ORDERING,
    SEEDS,
    TOY,
    Cell,
    OrderingSetting,
    Setting,
)
from holter.infra.stabilisers.trial import Trial, TrialResult, run_trial

Job = Trial | Recovery
Result = TrialResult | RecoveryResult
ResultT = TypeVar("ResultT", TrialResult, RecoveryResult)


@dataclass(frozen=True)
class Campaign:
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: tuple[int, ...] = SEEDS
    setting: Setting = TOY
    cells: tuple[Cell, ...] = CELLS
    ordering: OrderingSetting | None = ORDERING
    """None leaves CheckFree's part out."""

    def jobs(self) -> list[Job]:
        """Column by column of the table with all seeds, so that what an interrupted campaign has is of use."""
        trials: list[Job] = [
            Trial(arm, fault, beta2, seed) for fault, beta2 in self.cells for seed in self.seeds for arm in self.arms
        ]
        if self.ordering is None:
            return trials
        return trials + [Recovery(remedy, seed) for seed in self.seeds for remedy in REMEDIES]

    def run_one(self, job: Job) -> Result:
        if isinstance(job, Trial):
            return run_trial(job, self.setting)
        assert self.ordering is not None
        return run_recovery(job, self.ordering)

    def part_of(self, job: Job) -> Setting | OrderingSetting:
        if isinstance(job, Trial):
            return self.setting
        assert self.ordering is not None
        return self.ordering


LONG_CAMPAIGN = Campaign(("none", "agc", "clippy", "rollback"), (0,), LONG, (("lr", 0.95),), ordering=None)
"""Whether what bounds updates, or goes back, is best after a burst of the learning rate where the run is longer."""
QUICK_CAMPAIGN = Campaign(
    ("none", "globalgc", "clippy", "skip-step", "rollback", "rollback-ordered"),
    (0,),
    setting=QUICK,
    cells=tuple((fault, 0.95) for fault in FAULTS),
    ordering=QUICK_ORDERING,
)


class Results:
    """A file a trial, under a folder a setting: another setting never meets these numbers."""

    def __init__(self, folder: Path, campaign: Campaign) -> None:
        self._folder, self._campaign = folder, campaign

    def has(self, job: Job) -> bool:
        return self._path(job).exists()

    def keep(self, job: Job, result: Result) -> None:
        path = self._path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(msgspec.json.encode(result))
        unfinished.replace(path)

    def trials(self) -> dict[Trial, TrialResult]:
        jobs = [job for job in self._campaign.jobs() if isinstance(job, Trial) and self.has(job)]
        return {job: self._read(job, TrialResult) for job in jobs}

    def recoveries(self) -> dict[Recovery, RecoveryResult]:
        jobs = [job for job in self._campaign.jobs() if isinstance(job, Recovery) and self.has(job)]
        return {job: self._read(job, RecoveryResult) for job in jobs}

    def _read(self, job: Job, kind: type[ResultT]) -> ResultT:
        return msgspec.json.decode(self._path(job).read_bytes(), type=kind)

    def _path(self, job: Job) -> Path:
        described = msgspec.json.encode(asdict(self._campaign.part_of(job)))
        return self._folder / sha256(described).hexdigest()[:12] / f"{job.name}.json"


def run(campaign: Campaign, results: Results, num_processes: int, done: Callable[[Job], None]) -> None:
    """What is not there yet. With one process it is done in this one."""
    missing = [job for job in campaign.jobs() if not results.has(job)]
    for job, result in _computed(campaign, missing, num_processes):
        results.keep(job, result)
        done(job)


def _computed(campaign: Campaign, jobs: Iterable[Job], num_processes: int) -> Iterator[tuple[Job, Result]]:
    if num_processes == 1:
        yield from ((job, campaign.run_one(job)) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_processes, mp_context=context) as pool:
        futures = {pool.submit(campaign.run_one, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
