"""The jobs by name: what they are called on a cluster and how they are told where things are."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Literal, get_args

JobName = Literal["watch", "window_stats", "signals"]
JOB_NAMES: tuple[JobName, ...] = get_args(JobName)
_ON_CLUSTER = re.compile(r"holter-(\w+)\[(.*)\]")


@dataclass(frozen=True)
class WatchSettings:
    """What the one job that may act is told.

    ``keys_file`` is a path on the workers' machines; ``recovery_weights`` are JSON, empty for the shipped ones;
    ``learned`` is that of a learned detector, empty for none.
    """

    bootstrap: str
    prefix: str
    keys_file: str
    policy: str
    recovery_weights: str = ""
    learned: str = ""

    def arguments(self, issuer_epoch: int) -> list[str]:
        return [
            *reader_arguments(self.bootstrap, self.prefix),
            *("--keys-file", self.keys_file, "--policy", self.policy, "--issuer-epoch", str(issuer_epoch)),
            *(("--recovery-weights", self.recovery_weights) if self.recovery_weights else ()),
            *(("--learned", self.learned) if self.learned else ()),
        ]


def reader_arguments(bootstrap: str, prefix: str) -> list[str]:
    """What every job is told."""
    return ["--bootstrap", bootstrap, "--prefix", prefix]


def name_on_cluster(job: JobName, prefix: str) -> str:
    """One job of a name and prefix is to run at a time, so both are in the name that the cluster shows."""
    return f"holter-{job}[{prefix}]"


def job_and_prefix(on_cluster: str) -> tuple[str, str] | None:
    """What :func:`name_on_cluster` was made of, None for another's job.

    >>> job_and_prefix("holter-watch[team_a]"), job_and_prefix("Flink Streaming Job")
    (('watch', 'team_a'), None)
    """
    found = _ON_CLUSTER.fullmatch(on_cluster)
    return (found[1], found[2]) if found else None


def next_issuer_epoch(last: int) -> int:
    """Above every earlier one, also where the clock went back."""
    return max(last + 1, time.time_ns() // 1_000_000)
