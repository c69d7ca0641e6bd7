"""The command line that all jobs share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from holter.jobs.flink import Offsets


@dataclass(frozen=True)
class JobArguments:
    """Where a job reads and writes. One ``watch`` may run for a prefix, and any number of readers."""

    bootstrap: str
    prefix: str
    offsets: Offsets
    checkpoint_interval_ms: int | None
    jars: tuple[Path, ...]

    def job_name(self, name: str) -> str:
        """The name by which ``holter`` finds the job again on a cluster."""
        return f"holter-{name}[{self.prefix}]"

    def group(self, name: str) -> str:
        """The consumer group; its committed offsets show the lag and are where a job without a checkpoint starts."""
        group = f"holter-{name.replace('_', '-')}"
        return f"{self.prefix}-{group}" if self.prefix else group


def job_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the Kafka brokers")
    parser.add_argument("--prefix", default="", help="topic prefix of the tenant")
    parser.add_argument(
        "--offsets",
        choices=get_args(Offsets),
        default="committed",
        help="where to start without a checkpoint (default: %(default)s, else the earliest)",
    )
    parser.add_argument(
        "--checkpoint-interval-ms", type=int, metavar="N", help="default: the cluster's; without any, nothing is kept"
    )
    parser.add_argument(
        "--jar", type=Path, action="append", default=[], help="a jar the cluster's lib folder lacks (repeatable)"
    )
    return parser


def common_arguments(parsed: argparse.Namespace) -> JobArguments:
    jars: Sequence[Path] = parsed.jar
    return JobArguments(parsed.bootstrap, parsed.prefix, parsed.offsets, parsed.checkpoint_interval_ms, tuple(jars))
