"""The lines of a log on disk, plain or gzipped: damage costs what is damaged and nothing else."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

MAX_CHARACTERS = 2_000
_MAX_BYTES = 1 << 16
_HEAD_BYTES = 4096
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)

OnBytes = Callable[[int], None]


@dataclass
class Intake:
    """What was read, and what of it could not be used."""

    num_lines: int = 0
    num_cut: int = 0
    """Lines longer than 2,000 characters; their beginning is used."""
    num_undecodable_bytes: int = 0
    set_aside: dict[str, str] = field(default_factory=dict)
    """Reasons by file."""


def read_lines(path: Path, intake: Intake, on_bytes: OnBytes | None = None) -> Iterator[str]:
    """Counts into ``intake`` as it goes; holds one line at a time. ``on_bytes`` is told of bytes on disk."""
    try:
        with path.open("rb") as disk:
            packed = disk.read(2) == b"\x1f\x8b"
            disk.seek(0)
            handle = cast("IO[bytes]", gzip.GzipFile(fileobj=disk)) if packed else disk
            reason = _unusable(handle.read(_HEAD_BYTES))
            handle.seek(0)
            if reason:
                intake.set_aside[str(path)] = reason
                return
            yield from _decoded(handle, disk, intake, on_bytes)
    except _DAMAGE:
        intake.set_aside[str(path)] = "damaged gzip: what could be unpacked was used"
    except OSError as error:
        intake.set_aside[str(path)] = error.strerror or str(error)


def _unusable(head: bytes) -> str | None:
    """
    >>> _unusable(b"step 1"), _unusable(b""), _unusable(bytes(range(256)) * 4)
    (None, 'it is empty', 'it is not text')
    """
    if not head.strip(b"\0 \t\r\n"):
        return "it is empty"
    num_foreign = head.count(0) + head.decode("utf-8", "replace").count("\ufffd")
    return "it is not text" if num_foreign * 10 > len(head) else None


def _decoded(handle: IO[bytes], disk: IO[bytes], intake: Intake, on_bytes: OnBytes | None) -> Iterator[str]:
    told = 0
    for raw in iter(lambda: handle.readline(_MAX_BYTES), b""):
        if len(raw) == _MAX_BYTES and not raw.endswith(b"\n"):
            _skip_rest(handle)
        yield _text(raw, intake)
        if on_bytes is not None and intake.num_lines % 1024 == 0:
            told, before = disk.tell(), told
            on_bytes(told - before)
    if on_bytes is not None:
        on_bytes(disk.tell() - told)


def _skip_rest(handle: IO[bytes]) -> None:
    while (more := handle.readline(_MAX_BYTES)) and not more.endswith(b"\n"):
        pass


def _text(raw: bytes, intake: Intake) -> str:
    """What a terminal would show: a progress bar writes over itself after each carriage return."""
    shown = raw.rstrip(b"\r\n\0").rpartition(b"\r")[2]
    text = shown.decode("utf-8", "replace")
    if "\ufffd" in text:
        intake.num_undecodable_bytes += len(shown) - len(shown.decode("utf-8", "ignore").encode())
    intake.num_lines += 1
    if len(text) > MAX_CHARACTERS or len(raw) == _MAX_BYTES:
        intake.num_cut += 1
    return text[:MAX_CHARACTERS]
