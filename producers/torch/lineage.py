"""The attempts of a run, and what outlives them: intents and skipped data. All of it lies beside the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from holter.producers.notices import logger
from holter.producers.torch.synced_files import read_record, write_record
from holter.schemas.telemetry import Parent

FileT = TypeVar("FileT")


class AttemptRecord(Struct, frozen=True, omit_defaults=True):
    attempt: int
    parent: int | None = None
    parent_step: int = 0


class Intent(Struct, frozen=True):
    """An action that is about to replace the run's state."""

    action: str
    action_attempt: int
    ordinal: int
    checkpoint: str
    step: int
    digest: str


class SkippedRange(Struct, frozen=True):
    """Absolute batch indices of the loader, both ends included."""

    first: int
    last: int


class _Lineage(Struct, frozen=True):
    attempts: list[AttemptRecord] = []


class _Intents(Struct, frozen=True):
    unfinished: list[Intent] = []


class _Skipped(Struct, frozen=True):
    ranges: list[SkippedRange] = []


class Lineage:
    """Every change is on the disk when its call returns; what takes one back is tried and never raises.

    Every rank has one of its own. Without a folder it lives in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._attempts = self._read("attempts.json", _Lineage, _Lineage()).attempts
        self.intents = self._read("intents.json", _Intents, _Intents()).unfinished
        self.skipped = self._read("skip-ranges.json", _Skipped, _Skipped()).ranges

    @property
    def last_attempt(self) -> int | None:
        return self._attempts[-1].attempt if self._attempts else None

    def begin_attempt(self, parent: Parent | None, now_ms: int) -> int:
        """A number above the parent's and every earlier one of this folder, and not below the time."""
        latest = max([0 if parent is None else parent.attempt, self.last_attempt or 0])
        attempt = max(latest + 1, now_ms)
        self.adopt_attempt(attempt, parent)
        return attempt

    def adopt_attempt(self, attempt: int, parent: Parent | None) -> None:
        """Records an attempt whose number another rank made."""
        record = AttemptRecord(attempt)
        if parent is not None:
            record = structs.replace(record, parent=parent.attempt, parent_step=parent.step)
        self._attempts = [*self._attempts, record]
        self._write("attempts.json", _Lineage(self._attempts))

    def surviving_step(self, attempt: int) -> int | None:
        """Up to which step an attempt's history is part of the present line; None where it is not."""
        by_number = {record.attempt: record for record in self._attempts}
        current, bound = self._attempts[-1] if self._attempts else None, 2**53
        while current is not None:
            if current.attempt == attempt:
                return bound
            if current.parent is None:
                return None
            bound = min(bound, current.parent_step)
            current = by_number.get(current.parent)
        return None

    def announce(self, intent: Intent) -> None:
        self.intents = [*self.intents, intent]
        self._write("intents.json", _Intents(self.intents))

    def settle_intents(self) -> None:
        """Where that cannot be written, a later process calls a finished action interrupted."""
        self.intents = []
        self._try_to_write("intents.json", _Intents())

    def skip(self, skipped: SkippedRange) -> None:
        self.skipped = [*self.skipped, skipped]
        self._write("skip-ranges.json", _Skipped(self.skipped))

    def forget(self, skipped: SkippedRange | None) -> None:
        """Takes a range back whose action could not be applied."""
        if skipped in self.skipped:
            self.skipped = [each for each in self.skipped if each != skipped]
            self._try_to_write("skip-ranges.json", _Skipped(self.skipped))

    def is_skipped(self, batch_index: int) -> bool:
        return any(skipped.first <= batch_index <= skipped.last for skipped in self.skipped)

    def _read(self, name: str, kind: type[FileT], default: FileT) -> FileT:
        return default if self._folder is None else read_record(self._folder / name, kind, default)

    def _try_to_write(self, name: str, record: object) -> None:
        try:
            self._write(name, record)
        except OSError as error:
            logger.warning("%s is not up to date: %s", name, error)

    def _write(self, name: str, record: object) -> None:
        if self._folder is not None:
            write_record(self._folder / name, record)
