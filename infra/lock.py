"""One ``up`` or ``down`` at a time in a home."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holter.infra.errors import StackError

_POLL_SECONDS = 0.2


@contextmanager
def exclusive(path: Path, deadline_seconds: float, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file; the system releases it when the holder dies, however it dies.

    Raises:
        StackError: another command still holds it at the deadline.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        _acquire(file.fileno(), path, deadline_seconds, on_wait)
        yield


def _acquire(descriptor: int, path: Path, deadline_seconds: float, on_wait: Callable[[], None]) -> None:
    if _try_lock(descriptor):
        return
    on_wait()
    deadline = time.monotonic() + deadline_seconds
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            raise StackError(f"another holter command still works on this stack (it holds {path}): try again later")
        time.sleep(_POLL_SECONDS)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
