"""Log files: their ends, for people, and their size."""

from __future__ import annotations

from pathlib import Path

_TAIL_BYTES = 16_384
_MAX_KEPT_BYTES = 10 * 1024 * 1024


def tail(path: Path, num_lines: int = 15, since_byte: int = 0) -> list[str]:
    """The last lines of a file, none of them from before ``since_byte``; empty where it does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(max(since_byte, size_bytes(path) - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-num_lines:]
    except FileNotFoundError:
        return []


def size_bytes(path: Path) -> int:
    """0 where it does not exist."""
    return path.stat().st_size if path.exists() else 0


def rotate(path: Path) -> None:
    """Moves a long log aside, one generation; to be called when nobody writes to it."""
    if size_bytes(path) > _MAX_KEPT_BYTES:
        path.replace(path.with_suffix(".log.1"))
