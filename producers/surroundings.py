"""What the environment says about a run: the one place in the trainer that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from holter.producers.connection import Connection, connection_from_env

Mode = Literal["online", "local", "offline", "disabled"]
MODE_VARIABLE = "HOLTER_MODE"
RUNS_VARIABLE = "HOLTER_RUNS"
DEFAULT_RUNS = "holter-runs"


@dataclass(frozen=True)
class Surroundings:
    mode: Mode
    rank: int
    num_ranks: int
    runs: Path
    """The folder below which local and offline runs are kept."""
    connection: Connection | None
    """Of an online run; None where no bus is to be found."""


def surroundings_from_env(environ: Mapping[str, str], mode: str | None = None) -> Surroundings:
    """Reads variables and the files they name, connects to nothing. ``mode`` wins over ``HOLTER_MODE``.

    Raises:
        ValueError: there is no such mode.
    """
    chosen = _checked(mode or environ.get(MODE_VARIABLE) or "online")
    return Surroundings(
        mode=chosen,
        rank=_count(environ, "RANK", 0),
        num_ranks=max(1, _count(environ, "WORLD_SIZE", 1)),
        runs=Path(environ.get(RUNS_VARIABLE) or DEFAULT_RUNS),
        connection=connection_from_env(environ) if chosen == "online" else None,
    )


def _checked(mode: str) -> Mode:
    if mode not in get_args(Mode):
        raise ValueError(f"mode {mode!r} must be one of {', '.join(get_args(Mode))}")
    return cast("Mode", mode)


def _count(environ: Mapping[str, str], variable: str, default: int) -> int:
    text = environ.get(variable, "")
    return int(text) if text.isdigit() else default
