"""What is known of every checkpoint in a folder: new, verified, healthy, pinned or quarantined, kept beside them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from holter.producers.torch.synced_files import read_record, write_record

State = Literal["new", "verified", "healthy", "pinned", "quarantined"]
MAX_QUARANTINED = 20
"""Reasons that are remembered."""
_FILE = "ledger.json"
_ORDER: tuple[State, ...] = ("new", "verified", "healthy", "pinned", "quarantined")


class Entry(Struct, frozen=True, omit_defaults=True):
    name: str
    attempt: int
    step: int
    state: State = "new"
    reason: str = ""
    """Why it is quarantined."""

    @property
    def is_healthy(self) -> bool:
        return self.state in ("healthy", "pinned")


class _Ledger(Struct, frozen=True):
    checkpoints: list[Entry] = []


class CheckpointLedger:
    """States only go up: new → verified → healthy → pinned, and from any of them to quarantined.

    ``verified``: the file was read back whole and its weights are finite. ``healthy``: `watch` saw no incident within
    the steps after it. ``pinned``: the newest healthy one of the surviving line, which is never rotated away; when a
    newer one takes its place it is healthy again. Any thread may call; only :meth:`write` touches the disk.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / _FILE
        kept = _Ledger() if self._path is None else read_record(self._path, _Ledger, _Ledger())
        self._entries = {entry.name: entry for entry in kept.checkpoints}
        self._pinned = next((entry for entry in kept.checkpoints if entry.state == "pinned"), None)
        """Asked at every training step."""
        self._lock = threading.Lock()
        self._is_written = True

    @property
    def entries(self) -> list[Entry]:
        """Oldest first."""
        with self._lock:
            return sorted(self._entries.values(), key=lambda entry: (entry.attempt, entry.step))

    @property
    def pinned(self) -> Entry | None:
        return self._pinned

    def add(self, name: str, attempt: int, step: int) -> None:
        with self._lock:
            self._entries.setdefault(name, Entry(name, attempt, step))
            self._is_written = False

    def verify(self, name: str) -> None:
        self._raise_to(name, "verified")

    def heal(self, name: str, survives: Callable[[Entry], bool]) -> bool:
        """Notes that a checkpoint is healthy, and pins the newest healthy one that ``survives``; whether it is known.

        One that is quarantined stays so: what `watch` saw of the run says nothing of the file.
        """
        known = self._raise_to(name, "healthy")
        self.repin(survives)
        return known

    def repin(self, survives: Callable[[Entry], bool]) -> None:
        healthy = [entry for entry in self.entries if entry.is_healthy and survives(entry)]
        target = healthy[-1].name if healthy else None
        with self._lock:
            for name, entry in self._entries.items():
                state: State = "pinned" if name == target else "healthy"
                if entry.is_healthy and entry.state != state:
                    self._put(structs.replace(entry, state=state))

    def quarantine(self, name: str, reason: str) -> None:
        with self._lock:
            if name in self._entries:
                self._put(structs.replace(self._entries[name], state="quarantined", reason=reason[:500]))

    def why_quarantined(self, name: str) -> str:
        """Empty where it is not."""
        entry = self._entries.get(name)
        return entry.reason if entry is not None and entry.state == "quarantined" else ""

    def keep_only(self, names: Iterable[str]) -> list[str]:
        """Forgets the others but for the last quarantined ones; returns what was forgotten."""
        kept = set(names) | {entry.name for entry in self.entries if entry.state == "quarantined"}
        gone = [entry.name for entry in self.entries if entry.name not in kept]
        gone += [entry.name for entry in self.entries if entry.state == "quarantined"][:-MAX_QUARANTINED]
        with self._lock:
            for name in gone:
                del self._entries[name]
                self._unpin(name)
            self._is_written = self._is_written and not gone
        return gone

    def write(self) -> None:
        """Brings the file up to date. Raises OSError when the disk does not take it."""
        with self._lock:
            if self._is_written or self._path is None:
                return
            content, self._is_written = _Ledger(list(self._entries.values())), True
        try:
            write_record(self._path, content)
        except OSError:
            self._is_written = False
            raise

    def _raise_to(self, name: str, state: State) -> bool:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return False
            if _ORDER.index(entry.state) < _ORDER.index(state):
                self._put(structs.replace(entry, state=state))
            return True

    def _put(self, entry: Entry) -> None:
        self._entries[entry.name] = entry
        self._unpin(entry.name)
        if entry.state == "pinned":
            self._pinned = entry
        self._is_written = False

    def _unpin(self, name: str) -> None:
        if self._pinned is not None and self._pinned.name == name:
            self._pinned = None
