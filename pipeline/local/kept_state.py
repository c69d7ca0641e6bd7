"""The state of a recorder, written from time to time: it spares the next one to play the whole spool again.

Never relied on: a state that is missing, torn or of another release costs time and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from holter.pipeline.local.exchange import Kept
from holter.pipeline.local.spool import framed, intact_frames

_VERSION = 1


class KeptState(Struct):
    """The state after the entries of a spool up to a position."""

    version: int = _VERSION
    position: int = 0
    snapshots: dict[str, bytes] = {}
    """By key; of :meth:`~holter.pipeline.core.run_operator.RunOperator.to_bytes`."""
    kept: list[Kept] = []
    """What late readers are given."""


def read_state(path: Path, spool_end: int) -> KeptState:
    """The state of a file; an empty one where there is none that fits a spool of this length."""
    try:
        with path.open("rb") as stream:
            for frame in intact_frames(stream, 0):
                state = msgspec.msgpack.decode(frame.body, type=KeptState)
                if state.version == _VERSION and state.position <= spool_end:
                    return state
    except (OSError, msgspec.MsgspecError):
        pass
    return KeptState()


def write_state(path: Path, state: KeptState) -> None:
    """Raises OSError; the file is then as before."""
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_bytes(framed(msgspec.msgpack.encode(state)))
    os.replace(unfinished, path)
