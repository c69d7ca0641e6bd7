"""The unhurt beginning that all arms of a workload and seed go on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from holter.infra.rescue.faults import Fault
from holter.infra.rescue.lockstep import Lockstep, Pace
from holter.infra.rescue.ranks import Unjudged, run_two_ranks
from holter.infra.rescue.training import Pacer, Style, Trained, train
from holter.infra.rescue.workload import RECIPES, WorkloadName, build

_NEVER = 10**9
_PREFIX_STEPS: dict[WorkloadName, int] = {"gpt-warmup": 60}
_DEFAULT_PREFIX_STEPS = 300
_FIRST_STRUCK, _LAST_STRUCK = 20, 50


class Plan(Struct, frozen=True):
    """What the arms of one workload and seed have in common; the fault strikes at another place for every seed."""

    workload: WorkloadName
    seed: int
    steps_after: int

    @property
    def name(self) -> str:
        return f"{self.workload}-{self.seed}"

    @property
    def prefix_steps(self) -> int:
        """A multiple of the steps between checkpoints."""
        return _PREFIX_STEPS.get(self.workload, _DEFAULT_PREFIX_STEPS)

    @property
    def num_ranks(self) -> int:
        return RECIPES[self.workload].num_ranks

    @property
    def struck_after(self) -> int:
        """Executed steps between the fork and the fault."""
        return _FIRST_STRUCK + 7 * self.seed % (_LAST_STRUCK - _FIRST_STRUCK)

    @property
    def arm_steps(self) -> int:
        return self.struck_after + self.steps_after

    @property
    def horizon_steps(self) -> int:
        """Over which the learning rate falls."""
        return self.prefix_steps + _LAST_STRUCK + self.steps_after


class Prefix(Struct, frozen=True):
    snapshots: dict[str, bytes]
    """What the judge knew at the fork, by key."""
    curve: list[tuple[int, float]]


def make_prefix(plan: Plan, folder: Path, pace: Pace) -> None:
    """Trains it, unless it is there already."""
    if _record(folder).exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    prefix = _lead(plan, folder, pace) if plan.num_ranks == 1 else run_two_ranks(_lead, _follow, plan, folder, pace)
    _record(folder).write_bytes(msgspec.msgpack.encode(prefix))


def _lead(plan: Plan, folder: Path, pace: Pace) -> Prefix:
    lockstep = Lockstep(plan.name, "cautious", pace, num_ranks=plan.num_ranks)
    trained = _train(plan, lockstep, folder, rank=0)
    snapshots = lockstep.snapshots()
    lockstep.finish()
    return Prefix(snapshots, trained.curve)


def _follow(plan: Plan, folder: Path, pace: Pace) -> None:
    _train(plan, Unjudged(plan.name, _checkpoints(folder)), folder, rank=1)


def _train(plan: Plan, pacer: Pacer, folder: Path, rank: int) -> Trained:
    setup = build(plan.workload, plan.seed, plan.horizon_steps, lambda index, batch: batch, rank)
    return train(setup, pacer, _checkpoints(folder), Fault(_NEVER), plan.prefix_steps, Style())


def fork(folder: Path, checkpoints: Path) -> Prefix:
    """Copies the prefix's checkpoints; what the judge knew comes back."""
    shutil.rmtree(checkpoints, ignore_errors=True)
    shutil.copytree(_checkpoints(folder), checkpoints)
    return read_prefix(folder)


def read_prefix(folder: Path) -> Prefix:
    return msgspec.msgpack.decode(_record(folder).read_bytes(), type=Prefix)


def _record(folder: Path) -> Path:
    return folder / "prefix.msgpack"


def _checkpoints(folder: Path) -> Path:
    return folder / "checkpoints"
