"""Sends a spooled run to a bus, later than it happened, each record once.

What is sent is what the trainer said, marked as not live; what a local judge said of it is not: ``watch`` says windows,
signals and decisions again from the same records, under the same ids, and each topic keeps its one writer. Not live,
they are judged for the record only. (What was done to the run is in the trainer's acknowledgements.)

The position up to which everything is acknowledged is kept beside the spool. A sync that is cut off sends the records
after it again: the same bytes with the same ``seq``, which ``watch`` drops and the store keeps once.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from holter.pipeline.bus import Publisher
from holter.pipeline.bus.contract import BusError
from holter.pipeline.core.intake import SeqTracker
from holter.pipeline.local.run_folder import RunFolder
from holter.pipeline.local.spool import SpoolReader
from holter.schemas import InvalidRecord, codec, encode
from holter.schemas.telemetry import Telemetry
from holter.schemas.topics import TELEMETRY

ACKNOWLEDGE_EVERY = 512
ACKNOWLEDGE_SECONDS = 30.0

_NUM_DIGITS = 20


class SyncInUse(Exception):
    """Another sync is at work on this run."""


@dataclass
class SyncReport:
    """What one sync did. ``num_bytes_left`` is the end of the spool that is no whole record (yet)."""

    num_sent: int = 0
    num_unreadable: int = 0
    num_bytes_left: int = 0


class Position:
    """How far a spool was sent, in a file that one sync at a time may have."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    @contextmanager
    def locked(cls, path: Path) -> Iterator[Position]:
        """Raises SyncInUse, or OSError where it cannot be written."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(fd, path)
            yield cls(fd)
        finally:
            os.close(fd)

    def read(self, spool_bytes: int) -> int:
        """0 where it is of another spool, longer than this one."""
        position = _number(os.pread(self._fd, _NUM_DIGITS, 0))
        return position if position <= spool_bytes else 0

    def write(self, position: int) -> None:
        os.pwrite(self._fd, b"%0*d\n" % (_NUM_DIGITS, position), 0)
        os.fsync(self._fd)


def num_bytes_unsent(folder: RunFolder) -> int:
    """What a sync would read, about. Locks nothing."""
    size = folder.spool.stat().st_size
    try:
        position = _number(folder.synced.read_bytes()[:_NUM_DIGITS])
    except OSError:
        return size
    return size - position if position <= size else size


def sync_run(folder: RunFolder, publisher: Publisher, advance: Callable[[int], None] = lambda _: None) -> SyncReport:
    """Sends what a run's spool has after the kept position; ``advance`` is told how many bytes were read.

    Raises:
        BusError: something was not acknowledged; what was is remembered.
        SpoolError: the spool cannot be read.
        SyncInUse: another sync has it.
        OSError: the position cannot be written.
    """
    with Position.locked(folder.synced) as position:
        return _Sending(folder, publisher, position).run(advance)


class _Sending:
    def __init__(self, folder: RunFolder, publisher: Publisher, position: Position) -> None:
        self._reader = SpoolReader(folder.spool, position.read(folder.spool.stat().st_size))
        self._publisher = publisher
        self._position = position
        self._trackers: dict[tuple[int, int, str], SeqTracker] = {}
        self._num_unacknowledged = 0
        self._report = SyncReport()

    def run(self, advance: Callable[[int], None]) -> SyncReport:
        reader, report = self._reader, self._report
        before = reader.end
        for entry in reader:
            if entry.topic == TELEMETRY.name:
                self._send(entry.key, entry.value)
            if self._num_unacknowledged >= ACKNOWLEDGE_EVERY:
                self._acknowledge()
            advance(reader.end - before)
            before = reader.end
        self._acknowledge()
        report.num_unreadable += reader.num_unreadable
        report.num_bytes_left = reader.num_bytes_left()
        return report

    def _send(self, key: bytes, value: bytes) -> None:
        try:
            record: Telemetry = codec.telemetry.decode(value)
        except InvalidRecord:
            self._report.num_unreadable += 1
            return
        if self._is_new(record):
            self._publisher.publish(TELEMETRY, key, encode(structs.replace(record, live=False)))
            self._num_unacknowledged += 1

    def _is_new(self, record: Telemetry) -> bool:
        """A record is spooled twice where the trainer did not hear that it was."""
        speaker = (record.attempt, record.rank, record.session)
        tracker = self._trackers.setdefault(speaker, SeqTracker(record.session))
        return tracker.is_new(record.seq)

    def _acknowledge(self) -> None:
        if self._num_unacknowledged and not self._publisher.flush(ACKNOWLEDGE_SECONDS):
            raise BusError(f"no acknowledgement within {ACKNOWLEDGE_SECONDS:.0f} s", retriable=True)
        self._report.num_sent += self._num_unacknowledged
        self._num_unacknowledged = 0
        self._position.write(self._reader.end)


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else 0


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SyncInUse(f"another sync is at work on {path.parent}") from None
    except OSError:
        return  # a file system without locks
