"""Small files that must have reached the disk before what they announce happens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

RecordT = TypeVar("RecordT")


def write_synced(path: Path, content: bytes) -> None:
    """Replaces a file in one step: after a crash there is the old one or the new one, and after return the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_record(path: Path, kind: type[RecordT], default: RecordT) -> RecordT:
    """What :func:`write_record` wrote; the default where there is no file or one that is not ours."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return default


def write_record(path: Path, record: object) -> None:
    write_synced(path, msgspec.json.encode(record))
