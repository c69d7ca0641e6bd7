"""The bounded queue between the training thread and the sender."""

from __future__ import annotations

import threading
import time
from collections import deque

from holter.producers.handover import CountedStep, Handover, Logged
from holter.producers.notices import Notices

DEFAULT_BOUND = 10_000
_MAX_RESCUED = 1_000
_PAUSE_SECONDS = 0.02
_MAX_PAUSE_SECONDS = 0.2


class Outbox:
    """Never blocks the side that puts. When full, the oldest values go; events and acknowledgements are kept.

    Any thread may put, one gets. Waking the one that gets is a system call, which after a training step costs as much
    as all the rest of a ``log``: what is put quietly is found by looking, every 20 ms while looking finds something.
    """

    def __init__(self, notices: Notices, bound: int = DEFAULT_BOUND) -> None:
        self._notices = notices
        self._bound = bound
        self._items: deque[Handover] = deque()
        self._rescued: deque[Handover] = deque()
        self._bell = threading.Lock()  # a binary semaphore: locked while nobody has rung
        self._bell.acquire()
        self._is_woken = False
        self._pause_seconds = _PAUSE_SECONDS
        self.num_dropped = 0
        self.closed = False

    def put(self, handover: Handover) -> None:
        """To be taken at once."""
        self.put_quietly(handover)
        self._ring()

    def put_quietly(self, handover: Handover) -> None:
        """To be taken soon, or with the next :meth:`put`."""
        items = self._items
        if len(items) >= self._bound:
            self._make_room()
        if not self.closed:
            items.append(handover)

    def wake(self) -> None:
        """Ends a :meth:`get` that waits."""
        self._is_woken = True
        self._ring()

    def get(self, timeout_seconds: float) -> Handover | None:
        """The oldest; None after the timeout or a :meth:`wake`."""
        end = time.monotonic() + timeout_seconds
        has_rung = False
        while (handover := self._pop()) is None:
            left = end - time.monotonic()
            if left <= 0 or self._is_woken:
                self._is_woken = False
                return None
            has_rung = self._bell.acquire(timeout=min(left, self._pause_seconds))
            if not has_rung:
                self._pause_seconds = min(2 * self._pause_seconds, _MAX_PAUSE_SECONDS)
        if not has_rung:
            self._pause_seconds = _PAUSE_SECONDS
        return handover

    def __len__(self) -> int:
        return len(self._items) + len(self._rescued)

    def _ring(self) -> None:
        if self._bell.locked():
            try:
                self._bell.release()
            except RuntimeError:  # another thread rang meanwhile
                return

    def _pop(self) -> Handover | None:
        waiting = self._rescued or self._items
        try:
            return waiting.popleft()
        except IndexError:
            return None

    def _make_room(self) -> None:
        """What leaves the front is older than all that stays, so putting it aside keeps the order."""
        while len(self._items) >= self._bound:
            try:
                oldest = self._items.popleft()
            except IndexError:
                return
            if isinstance(oldest, (Logged, CountedStep)) or len(self._rescued) >= _MAX_RESCUED:
                self.num_dropped += 1
                self._notices.warn("dropped", "Holter's queue is full: its oldest values go; training is not affected")
            else:
                self._rescued.append(oldest)
