"""The bounded queue between the training thread and the sender."""

from __future__ import annotations

import queue
from collections import deque

from holter.producers.handover import CountedStep, Handover, Logged
from holter.producers.notices import Notices

DEFAULT_BOUND = 10_000
_MAX_RESCUED = 1_000


class Outbox:
    """Never blocks the side that puts. When full, the oldest values go; events and acknowledgements are kept.

    Any thread may put, one gets. The queue is C-implemented: putting costs well under a microsecond, and the wake of
    a sender that waits.
    """

    def __init__(self, notices: Notices, bound: int = DEFAULT_BOUND) -> None:
        self._notices = notices
        self._bound = bound
        self._queue: queue.SimpleQueue[Handover | None] = queue.SimpleQueue()
        self._rescued: deque[Handover] = deque()
        self.num_dropped = 0
        self.closed = False

    def put(self, handover: Handover) -> None:
        waiting = self._queue
        if waiting.qsize() >= self._bound:
            self._make_room()
        if not self.closed:
            waiting.put(handover)

    def wake(self) -> None:
        """Ends a :meth:`get` that waits."""
        self._queue.put(None)

    def get(self, timeout_seconds: float) -> Handover | None:
        """The oldest; None after the timeout or a :meth:`wake`."""
        if self._rescued:
            return self._rescued.popleft()
        try:
            return self._queue.get(timeout=timeout_seconds)
        except queue.Empty:
            return None

    def __len__(self) -> int:
        return self._queue.qsize() + len(self._rescued)

    def _make_room(self) -> None:
        """What leaves the front is older than all that stays, so putting it aside keeps the order."""
        while self._queue.qsize() >= self._bound:
            try:
                oldest = self._queue.get_nowait()
            except queue.Empty:
                return
            if isinstance(oldest, (Logged, CountedStep)) or len(self._rescued) >= _MAX_RESCUED:
                self.num_dropped += 1
                self._notices.warn("dropped", "Holter's queue is full: its oldest values go; training is not affected")
            elif oldest is not None:
                self._rescued.append(oldest)
