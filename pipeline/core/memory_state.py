"""Keyed state in a process's memory: for the in-process driver and tests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class MemoryState:
    snapshot: bytes | None = None
    journal: list[bytes] = field(default_factory=list)

    def read_snapshot(self) -> bytes | None:
        return self.snapshot

    def write_snapshot(self, value: bytes | None) -> None:
        self.snapshot = value

    def read_journal(self) -> list[bytes]:
        return self.journal

    def append_journal(self, entry: bytes) -> None:
        self.journal.append(entry)

    def clear_journal(self) -> None:
        self.journal.clear()
