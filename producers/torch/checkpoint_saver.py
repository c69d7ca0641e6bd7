"""Saving off the step: the training thread copies, a background thread writes and reads back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from holter.producers.notices import Notices
from holter.producers.torch.checkpoint_files import CheckpointFiles, DamagedCheckpoint, Manifest, check_finite
from holter.producers.torch.snapshot import Snapshots

_BACKGROUND_NICENESS = 10


class CheckpointSaver:
    """At most one save in flight: while one is, further ones are skipped and counted. A process that ends waits for it.

    Args:
        saved: told of every checkpoint that is on the disk, with the seconds that took, those of them that the training
            stood still, and why it is of no use where a weight is not finite; from the background thread, which goes
            on with what ``saved`` does.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        saved: Callable[[Manifest, float, float, str], None],
        notices: Notices,
        clock_ms: Callable[[], int],
    ) -> None:
        self.num_skipped = 0
        self._files = files
        self._saved = saved
        self._notices = notices
        self._clock_ms = clock_ms
        self._snapshots = Snapshots()
        self._worker = ThreadPoolExecutor(1, "holter-checkpoint", _lower_priority)
        self._is_writing = False
        self._last: Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written; one that is only being read back holds nothing up."""
        return self._is_writing

    def skip(self) -> None:
        """Counts a save that is not made, because this or another rank is still at the one before."""
        self.num_skipped += 1
        self._notices.warn("save_skipped", "a checkpoint is skipped: the one before is still being written")

    def save(self, name: str, attempt: int, step: int, state: dict[str, Any]) -> bool:
        """Copies the state and begins to write it; False where an earlier save is not done yet."""
        if self.is_busy:
            self.skip()
            return False
        began = time.monotonic()
        copied = self._snapshots.take(state)
        blocked_seconds = time.monotonic() - began
        self._is_writing = True
        self.later(lambda: self._write(name, attempt, step, copied, began, blocked_seconds))
        return True

    def later(self, work: Callable[[], None]) -> None:
        """Does something with the files when what is in flight is done."""
        try:
            self._last = self._worker.submit(work)
        except RuntimeError:  # the process is ending, or no thread can be started
            self._is_writing = False

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Until all that was begun is done; whether it is."""
        return self._last is None or bool(wait([self._last], timeout_seconds).done)

    def _write(
        self, name: str, attempt: int, step: int, state: dict[str, Any], began: float, blocked_seconds: float
    ) -> None:
        try:
            self._snapshots.wait()
            manifest = self._files.write(name, attempt, step, state, self._clock_ms())
            damage = _damage(f"{name}.pt", state)
            self._is_writing = False
            self._saved(manifest, time.monotonic() - began, blocked_seconds, damage)
        except Exception as error:  # a full disk, or a state that cannot be serialised, must not end the training
            self._notices.warn("save_failed", f"checkpoint {name} was not saved: {error!r}")
        finally:
            self._is_writing = False


def _damage(name: str, state: dict[str, Any]) -> str:
    try:
        check_finite(name, state.get("model", {}))
    except DamagedCheckpoint as error:
        return str(error)
    return ""


def _lower_priority() -> None:
    """Writing waits for idle cores, so that it takes none from the training (Linux has a niceness a thread)."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)
    except (OSError, AttributeError):
        return
