"""The bounded queue between the training thread and the sender."""

from __future__ import annotations

import queue
from collections import deque

from holter.producers.notices import Notices
from holter.producers.records import Cut, CutBatch

DEFAULT_BOUND = 10_000
_MAX_RESCUED = 1_000


class Outbox:
    """Never blocks the side that puts. When full, the oldest metrics go; events and acknowledgements are kept.

    ``bound`` counts steps and other records. One thread at a time puts and one gets; the queue between them is
    C-implemented, so that waking the sender costs the training thread a fraction of a microsecond.
    """

    def __init__(self, notices: Notices, bound: int = DEFAULT_BOUND) -> None:
        self._notices = notices
        self._bound = bound
        self._queue: queue.SimpleQueue[Cut | None] = queue.SimpleQueue()
        self._rescued: deque[Cut] = deque()
        self._num_put = self._num_got = self._num_left_early = 0
        self.num_dropped = 0
        self.closed = False

    def put(self, cut: Cut) -> None:
        if self.closed:
            return
        self._num_put += _weight(cut)
        while len(self) > self._bound and self._drop_oldest():
            pass
        self._queue.put(cut)

    def wake(self) -> None:
        """Ends a :meth:`get` that waits."""
        self._queue.put(None)

    def get(self, timeout_seconds: float) -> Cut | None:
        """The oldest record; None after the timeout or a :meth:`wake`."""
        if self._rescued:
            return self._rescued.popleft()
        try:
            cut = self._queue.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if cut is not None:
            self._num_got += _weight(cut)
        return cut

    def __len__(self) -> int:
        return self._num_put - self._num_got - self._num_left_early

    @property
    def is_empty(self) -> bool:
        return len(self) == 0 and not self._rescued

    def _drop_oldest(self) -> bool:
        try:
            oldest = self._queue.get_nowait()
        except queue.Empty:
            return False
        if oldest is None:
            return True
        self._num_left_early += _weight(oldest)
        # What leaves the front is older than all that stays, so putting it aside keeps the order.
        if not isinstance(oldest, CutBatch) and len(self._rescued) < _MAX_RESCUED:
            self._rescued.append(oldest)
            return True
        self.num_dropped += 1
        self._notices.warn("dropped", "Holter's queue is full: its oldest metrics go; training is not affected")
        return True


def _weight(cut: Cut) -> int:
    return len(cut.rows) if isinstance(cut, CutBatch) else 1
