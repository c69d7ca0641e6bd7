"""One batch on its way into the store, on a thread of its own, so that the next one is read meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from holter.pipeline.bus import BusError
from holter.pipeline.loader.batch import Batch
from holter.pipeline.loader.letter_box import LetterBox
from holter.pipeline.loader.sink import Sink
from holter.pipeline.store.errors import StoreError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backoff:
    first_seconds: float = 0.5
    max_seconds: float = 30.0


@dataclass(frozen=True)
class Inserted:
    batch: Batch
    num_rows: int


class Insertion:
    """At most one batch is under way. Owned by one thread; the work is done on another.

    Attributes:
        num_pauses: how often the store could not take a table and it was tried again.
    """

    def __init__(self, sink: Sink, letters: LetterBox, stop: threading.Event, backoff: Backoff) -> None:
        self.num_pauses = 0
        self._sink = sink
        self._letters = letters
        self._stop = stop
        self._backoff = backoff
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader-insert")
        self._under_way: Future[Inserted | None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._under_way is None

    def begin(self, batch: Batch) -> None:
        assert self.is_idle
        self._under_way = self._thread.submit(self._insert, batch)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether the batch ended within the time; True where none is under way."""
        return self._under_way is None or not wait([self._under_way], timeout_seconds).not_done

    def take(self) -> Inserted | None:
        """The batch that ended; None where none did, or where ``stop`` ended it.

        Raises:
            StoreError, BusError: what no retry will change.
        """
        if self._under_way is None or not self._under_way.done():
            return None
        ended, self._under_way = self._under_way, None
        return ended.result()

    def close(self) -> None:
        self._thread.shutdown()

    def _insert(self, batch: Batch) -> Inserted | None:
        tables = batch.tables()
        for table, rows in tables.items():
            token = f"{batch.token}-{table}"
            if not self._retry(lambda table=table, rows=rows, token=token: self._sink.insert(table, rows, token)):  # type: ignore[misc]
                return None
        if not self._retry(lambda: self._letters.send(batch.dead_letters)):
            return None
        return Inserted(batch, sum(rows.num_rows for rows in tables.values()))

    def _retry(self, operation: Callable[[], None]) -> bool:
        """Repeats until it succeeds; False if it was told to stop before."""
        pause = self._backoff.first_seconds
        while True:
            try:
                operation()
            except (StoreError, BusError) as error:
                if not error.retriable:
                    raise
                self._note_pause(error, pause)
            else:
                return True
            if self._stop.wait(pause):
                return False
            pause = min(2 * pause, self._backoff.max_seconds)

    def _note_pause(self, error: Exception, pause: float) -> None:
        """One warning at the beginning of an outage, the rest for those who look."""
        self.num_pauses += 1
        level = logging.WARNING if pause == self._backoff.first_seconds else logging.DEBUG
        _logger.log(level, "paused, offsets kept, trying again: %s", error)
