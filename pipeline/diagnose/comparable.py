"""Which jobs are comparable: of the same model, framework and scale bucket, where that is said."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Job(NamedTuple):
    """``kind``: model and framework, "" where nobody said."""

    folder: Path
    kind: str = ""


def scale_bucket(num_nodes: int) -> int:
    """Powers of two: 33 to 64 nodes are one bucket, 65 to 128 the next.

    >>> [scale_bucket(number) for number in (1, 2, 3, 4, 33, 64, 65)]
    [0, 1, 2, 2, 6, 6, 7]
    """
    return (num_nodes - 1).bit_length()


def job(text: str) -> Job:
    """``FOLDER``, or ``MODEL/FRAMEWORK=FOLDER``.

    >>> job("llama-70b/megatron=logs/0412"), job("logs/0412").kind
    (Job(folder=PosixPath('logs/0412'), kind='llama-70b/megatron'), '')
    """
    kind, equals, folder = text.partition("=")
    return Job(Path(folder), kind.strip().lower()) if equals and not Path(text).exists() else Job(Path(text))


def objection(failed: Job, num_failed: int, other: Job, num_other: int) -> str | None:
    """Why a job is not comparable; None where it is. A kind that was not said does not speak against it."""
    if failed.kind and failed.kind != other.kind:
        return f"it is of {other.kind or 'no model and framework that was said'}, not {failed.kind}"
    if failed.kind and scale_bucket(num_failed) != scale_bucket(num_other):
        return f"it has {num_other} nodes, the failed one {num_failed}"
    return None
