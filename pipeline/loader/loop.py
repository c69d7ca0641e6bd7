"""The loader: read, gather, insert, commit, in this order; the next batch is read while one is inserted.

Nothing is committed before it is in the store, so a crash at any point loads some records a second time, and the
tables keep one row for an identity. While the store cannot take more, the loader stands still with its offsets.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holter.pipeline.bus import BusError
from holter.pipeline.loader.batch import Batch
from holter.pipeline.loader.consumer import Consumer
from holter.pipeline.loader.insertion import Backoff, Inserted, Insertion
from holter.pipeline.loader.letter_box import LetterBox
from holter.pipeline.loader.sink import Sink
from holter.schemas.topics import Topic

_KEEP_ALIVE_SECONDS = 1.0
_logger = logging.getLogger(__name__)


class MostlyUnreadable(Exception):
    """Most of what was read is no record: a wrong prefix or version is likelier than so much bad data."""


@dataclass(frozen=True)
class LoopSettings:
    """When a batch is inserted: at ``max_rows`` rows, or ``max_age_seconds`` after its first record."""

    max_rows: int = 200_000
    max_age_seconds: float = 1.0
    poll_ms: int = 200
    min_records_to_judge: int = 200
    """A batch with fewer records is never called mostly unreadable."""
    backoff: Backoff = field(default_factory=Backoff)


@dataclass
class LoadCounts:
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    batches: int = 0
    pauses: int = 0


class Loader:
    """One thread owns it. ``stop`` ends it after the batches in hand, or at once while the store is away."""

    def __init__(
        self,
        consumer: Consumer,
        sink: Sink,
        letters: LetterBox,
        topics: Mapping[str, Topic],
        settings: LoopSettings = LoopSettings(),
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.counts = LoadCounts()
        self.stop = threading.Event()
        self._consumer = consumer
        self._sink = sink
        self._letters = letters
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._now_ms = now_ms
        self._insertion = Insertion(sink, letters, self.stop, settings.backoff)
        self._batch = Batch(topics)
        self._batch_began = 0.0

    def run(self) -> None:
        """Loads until ``stop``.

        Raises:
            StoreError: the store refuses what no retry will change.
            BusError: so does the bus.
            MostlyUnreadable: nothing of the batch was committed.
        """
        while not self.stop.is_set():
            self.step()
        self.flush()

    def step(self) -> None:
        """Reads once, commits what was inserted meanwhile, and hands the batch on if it is time."""
        self._read()
        self._commit_inserted()
        if self._batch and self._is_due():
            self._hand_on()

    def flush(self) -> None:
        """Inserts and commits what is in hand; not committed if ``stop`` comes while the store is away."""
        if self._batch:
            self._hand_on()
        self._await_insertion()

    def close(self) -> None:
        self._insertion.close()
        self._letters.close()
        self._sink.close()
        self._consumer.close()

    def _read(self) -> None:
        was_empty = not self._batch
        try:
            for messages in self._consumer.poll(self._settings.poll_ms):
                self._batch.add_all(messages, self._now_ms())
        except BusError as error:
            if not error.retriable:
                raise
            _logger.warning("cannot read: %s", error)
            self.stop.wait(self._settings.backoff.first_seconds)
        if was_empty:
            self._batch_began = self._clock()

    def _is_due(self) -> bool:
        age = self._clock() - self._batch_began
        return self._batch.num_rows >= self._settings.max_rows or age >= self._settings.max_age_seconds

    def _hand_on(self) -> None:
        self._refuse_mostly_unreadable(self._batch)
        self._await_insertion()
        self._insertion.begin(self._batch)
        self._batch = Batch(self._topics)

    def _await_insertion(self) -> None:
        while not self._insertion.wait(_KEEP_ALIVE_SECONDS):
            self.counts.pauses = self._insertion.num_pauses
            self._keep_alive()
        self._commit_inserted()

    def _commit_inserted(self) -> None:
        inserted = self._insertion.take()
        self.counts.pauses = self._insertion.num_pauses
        if inserted is None:
            return
        try:
            self._consumer.commit(inserted.batch.next_offsets)
        except BusError as error:
            if not error.retriable:
                raise
            _logger.warning("not committed, the next batch will: %s", error)
        self._count(inserted)

    def _keep_alive(self) -> None:
        try:
            self._consumer.keep_alive()
        except BusError as error:
            _logger.debug("while paused: %s", error)

    def _count(self, inserted: Inserted) -> None:
        letters = inserted.batch.dead_letters
        self.counts.batches += 1
        self.counts.records += inserted.batch.num_records
        self.counts.rows += inserted.num_rows
        self.counts.dead_letters += len(letters)
        if letters:
            _logger.warning("%d records set aside, the last for %s: %s", len(letters), letters[-1].reason,
                            letters[-1].detail)  # fmt: skip

    def _refuse_mostly_unreadable(self, batch: Batch) -> None:
        num_bad = len(batch.dead_letters)
        if batch.num_records >= self._settings.min_records_to_judge and 2 * num_bad > batch.num_records:
            raise MostlyUnreadable(
                f"{num_bad} of {batch.num_records} records cannot be read, the last because: "
                f"{batch.dead_letters[-1].detail}. Is the topic prefix right, and this version as new as the trainers'?"
            )
