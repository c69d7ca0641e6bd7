"""Saving off the step: the training thread copies, a background thread writes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from holter.producers.notices import Notices
from holter.producers.torch.checkpoint_files import CheckpointFiles, Manifest
from holter.producers.torch.snapshot import Snapshots

_BACKGROUND_NICENESS = 10


class CheckpointSaver:
    """At most one save in flight: while one is, further ones are skipped and counted. A process that ends waits for it.

    Keeps the newest ``keep`` checkpoints and the one that ``pinned`` names.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        keep: int,
        pinned: Callable[[], str | None],
        saved: Callable[[Manifest, float], None],
        notices: Notices,
        clock_ms: Callable[[], int],
    ) -> None:
        self.num_skipped = 0
        self._files = files
        self._keep = keep
        self._pinned = pinned
        self._saved = saved
        self._notices = notices
        self._clock_ms = clock_ms
        self._snapshots = Snapshots()
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

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
        self._thread = threading.Thread(
            target=self._write, args=(name, attempt, step, copied, began), name="holter-checkpoint"
        )
        self._thread.start()
        return True

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Until the save in flight is done; whether it is."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self._thread is None or not self._thread.is_alive()

    def _write(self, name: str, attempt: int, step: int, state: dict[str, Any], began: float) -> None:
        _lower_priority()
        try:
            self._snapshots.wait()
            manifest = self._files.write(name, attempt, step, state, self._clock_ms())
            self._saved(manifest, time.monotonic() - began)
            self._rotate()
        except Exception as error:  # a full disk, or a state that cannot be serialised, must not end the training
            self._notices.warn("save_failed", f"checkpoint {name} was not saved: {error!r}")

    def _rotate(self) -> None:
        by_age = sorted(self._files.manifests(), key=lambda manifest: manifest.saved_ms)
        kept = {manifest.name for manifest in by_age[-self._keep :]}
        pinned = self._pinned()
        self._files.keep_only(kept if pinned is None else kept | {pinned})


def _lower_priority() -> None:
    """Writing waits for idle cores, so that it takes none from the training (Linux has a niceness a thread)."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)
    except (OSError, AttributeError):
        return
