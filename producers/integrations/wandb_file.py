"""The rows of a W&B run from the file that it keeps, also offline and never uploaded::

    python -m holter.producers.integrations.wandb_file wandb/latest-run/*.wandb > rows.jsonl
    holter replay rows.jsonl

The file is a log of LevelDB's format (blocks of 32 KiB; https://github.com/google/leveldb, doc/log_format.md) under a
head of seven bytes, of records as in W&B's ``wandb_internal.proto``. W&B writes it a block at a time, and the last one
when its service ends: it holds a run whole after the run, and lags behind it before.
"""

from __future__ import annotations

import contextlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import HistoryRecord, Record

from holter.producers.integrations.scalars import Scalar, row_scalars

_MAGIC = b":W&B"
_HEAD_BYTES = 7
_BLOCK_BYTES = 32 * 1024
_CHUNK = struct.Struct("<IHB")
_FULL, _LAST = 1, 4


class NotAWandbFile(Exception):
    """The message says why."""


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Each row of the history, with ``_step``; what is torn at the end is left out.

    Raises:
        NotAWandbFile: it cannot be read, or is another file.
    """
    return _rows(_RecordLog(path))


class WandbFile:
    """A run's file that may still grow; each call reads on after the last whole record."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = _RecordLog(path)

    def new_scalars(self) -> Iterator[Scalar]:
        """What was written since the last call. Raises as :func:`read_rows` and :meth:`Path.stat` do."""
        if self._path.stat().st_size > self._log.position:
            for row in _rows(self._log):
                yield from row_scalars(row, row["_step"])


class _RecordLog:
    """``position`` is where the record after the last whole one begins."""

    def __init__(self, path: Path) -> None:
        self.position = _HEAD_BYTES
        self._path = path

    def new_records(self) -> Iterator[bytes]:
        """Raises :class:`NotAWandbFile`."""
        parts: list[bytes] = []
        for kind, chunk, end in _chunks(self._rest(), self.position):
            parts.append(chunk)
            if kind in (_FULL, _LAST):
                self.position = end
                yield b"".join(parts)
                parts = []

    def _rest(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise NotAWandbFile(f"{self._path} is no .wandb file of a run")
                file.seek(self.position)
                return file.read()
        except OSError as error:
            raise NotAWandbFile(f"{self._path} cannot be read: {error.strerror}") from None


def _rows(log: _RecordLog) -> Iterator[dict[str, Any]]:
    for body in log.new_records():
        record = Record()
        record.ParseFromString(body)
        if record.HasField("history"):
            yield _row(record.history)


def _row(history: HistoryRecord) -> dict[str, Any]:
    row: dict[str, Any] = {"_step": history.step.num}
    for item in history.item:
        with contextlib.suppress(ValueError):
            row[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    return row


def _chunks(content: bytes, begin: int) -> Iterator[tuple[int, bytes, int]]:
    """Of what the file holds from ``begin`` on: each one's kind, its bytes and where in the file it ends.

    A chunk never crosses a block's end; less than its head of seven bytes there is padding.
    """
    at = 0
    while at + _CHUNK.size <= len(content):
        left = _BLOCK_BYTES - (begin + at) % _BLOCK_BYTES
        if left < _CHUNK.size:
            at += left
            continue
        _, size, kind = _CHUNK.unpack_from(content, at)
        at += _CHUNK.size
        if not kind or at + size > len(content):
            return
        yield kind, content[at : at + size], begin + at + size
        at += size


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m holter.producers.integrations.wandb_file RUN.wandb > rows.jsonl", file=sys.stderr)
        return 2
    try:
        for row in read_rows(Path(arguments[0])):
            print(json.dumps(row))
    except NotAWandbFile as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
