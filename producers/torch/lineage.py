"""The attempts of a run, and what outlives them: intents and skipped data. All of it lies beside the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from holter.producers.bad_batches import BAD_BATCHES_FILE, BadBatches, BadBatchesFile
from holter.producers.notices import logger
from holter.producers.torch.batch_contents import Extent
from holter.producers.torch.synced_files import read_record, write_record
from holter.schemas.telemetry import Parent

FileT = TypeVar("FileT")


class AttemptRecord(Struct, frozen=True, omit_defaults=True):
    attempt: int
    parent: int | None = None
    parent_step: int = 0


class Intent(Struct, frozen=True):
    """An action that is about to change the run: back to ``checkpoint``, or, where that is empty, as it goes on."""

    action: str
    action_attempt: int
    ordinal: int
    checkpoint: str
    step: int
    digest: str


class _Lineage(Struct, frozen=True):
    attempts: list[AttemptRecord] = []


class _Intents(Struct, frozen=True):
    unfinished: list[Intent] = []


class Lineage:
    """Every change is on the disk when its call returns; what takes one back is tried and never raises.

    Every rank has one of its own. Without a folder it lives in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._attempts = self._read("attempts.json", _Lineage, _Lineage()).attempts
        self.intents = self._read("intents.json", _Intents, _Intents()).unfinished
        self._set_skipped(self._read(BAD_BATCHES_FILE, BadBatchesFile, BadBatchesFile()).ranges)

    @property
    def last_attempt(self) -> int | None:
        return self._attempts[-1].attempt if self._attempts else None

    @property
    def first_attempt(self) -> int | None:
        return self._attempts[0].attempt if self._attempts else None

    @property
    def num_attempts(self) -> int:
        return len(self._attempts)

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

    def skip(self, skipped: BadBatches) -> None:
        self._set_skipped([*self.skipped, skipped])
        self._write(BAD_BATCHES_FILE, BadBatchesFile(self.skipped))

    def forget(self, skipped: BadBatches | None) -> None:
        """Takes a range back whose action could not be applied."""
        if skipped in self.skipped:
            self._set_skipped([each for each in self.skipped if each != skipped])
            self._try_to_write(BAD_BATCHES_FILE, BadBatchesFile(self.skipped))

    def is_skipped(self, batch_index: int, extent: Extent | None = None) -> bool:
        """Whether a batch is bad: by its samples where ``extent`` and the ledger tell them, else by its number.

        By samples it is when any of its positions is in a bad range, or all of its ids are known as bad: so the data
        is left out also where the size or the order of batches changed. Ranks that must skip together give no extent.
        """
        return any(_is_in(skipped, batch_index, extent) for skipped in self.skipped) or self._has_bad_ids(extent)

    def _has_bad_ids(self, extent: Extent | None) -> bool:
        return extent is not None and bool(extent.ids) and self._bad_ids.issuperset(extent.ids)

    def _set_skipped(self, skipped: list[BadBatches]) -> None:
        self.skipped = skipped
        self._bad_ids = {each for bad in skipped for each in bad.sample_ids}

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


def _is_in(skipped: BadBatches, batch_index: int, extent: Extent | None) -> bool:
    if extent is None or extent.first_sample is None or skipped.first_sample is None or skipped.last_sample is None:
        return skipped.holds(batch_index)
    last_sample = extent.first_sample + extent.num_samples - 1
    return extent.first_sample <= skipped.last_sample and skipped.first_sample <= last_sample
