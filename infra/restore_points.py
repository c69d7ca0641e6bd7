"""Which state a job starts from: the newest checkpoint or savepoint that it left behind."""

from __future__ import annotations

from pathlib import Path

from holter.infra.flink_submit import Restore
from holter.infra.settings import HomeLayout


def kept_name(job: str, prefix: str, stack_prefix: str) -> str:
    """The name under which a stack keeps what a job leaves; jobs of other prefixes than its own have one each."""
    return job if prefix == stack_prefix else f"{job}-{prefix}"


def job_checkpoints(layout: HomeLayout, job: str) -> Path:
    return layout.checkpoints / job


def job_savepoints(layout: HomeLayout, job: str) -> Path:
    return layout.savepoints / job


def newest_restore(layout: HomeLayout, job: str) -> Restore | None:
    """Of a job by its kept name; None where it has left none.

    A checkpoint is claimed, so that Flink removes it when newer ones have replaced it; a savepoint stays as it was.
    """
    found = [(path, True) for path in job_checkpoints(layout, job).glob("*/chk-*/_metadata")]
    found += [(path, False) for path in job_savepoints(layout, job).glob("savepoint-*/_metadata")]
    if not found:
        return None
    # A complete checkpoint is one whose metadata is there: that file is written last.
    path, claim = max(found, key=lambda candidate: candidate[0].stat().st_mtime_ns)
    return Restore(path.parent.as_uri(), claim)
