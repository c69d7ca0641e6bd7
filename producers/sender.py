"""The thread that carries records to the bus. Whatever the bus does, only this thread notices."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from holter.pipeline.bus import Bus, BusError, Publisher
from holter.producers.cutter import Cutter
from holter.producers.handover import CountedStep, Happened, Logged
from holter.producers.notices import Notices
from holter.producers.outbox import Outbox
from holter.producers.records import RecordEncoder
from holter.schemas.bounds import Phase
from holter.schemas.telemetry import Heartbeat
from holter.schemas.topics import Topic

_FIRST_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 10.0
_CONFIRM_SECONDS = 0.1
_LAST_CONFIRM_SECONDS = 0.01
_MAX_CONFIRM_SECONDS = 0.5
_BUSY_CONFIRM_SECONDS = 1.0
_MAX_UNCONFIRMED = 512
_MAX_UNCONFIRMED_BYTES = 8 * 1024 * 1024
_SILENT_SECONDS = 5.0
_GIVEN_UP_SECONDS = 30.0
_HEARTBEAT_SECONDS = 10.0
_IDLE_SECONDS = 1.0
_MAX_REFUSALS = 3


@dataclass(frozen=True)
class Destination:
    topic: Topic
    key: bytes
    client_id: str


class Sender(threading.Thread):
    """Sends in order, and once more with the same bytes what was not acknowledged when a publisher broke.

    What is unacknowledged is bounded: beyond it the sender waits for the bus and the outbox fills to its own bound.
    What the bus refuses three times in a row is dropped and counted, so that one record cannot end the telemetry.
    """

    def __init__(
        self,
        connect: Callable[[], Bus],
        destination: Destination,
        outbox: Outbox,
        cutter: Cutter,
        notices: Notices,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__(name="holter-sender", daemon=True)
        self.phase: Phase = "train"
        self.num_sent = self.num_refused = self.num_connections = 0
        self._connect = connect
        self._destination = destination
        self._outbox = outbox
        self._cutter = cutter
        self._notices = notices
        self._clock_ms = clock_ms
        self._encoder = RecordEncoder(notices)
        self._publisher: Publisher | None = None
        self._waiting: deque[bytes] = deque()
        self._unconfirmed: deque[bytes] = deque()
        self._num_unconfirmed_bytes = 0
        self._num_refusals_in_a_row = 0
        self._backoff_seconds = _FIRST_BACKOFF_SECONDS
        self._confirm_seconds = _CONFIRM_SECONDS
        self._num_lost = 0
        self._unconfirmed_since = self._last_sent_at = time.monotonic()
        self._stopping = threading.Event()
        self._stop_at = float("inf")

    @property
    def num_left(self) -> int:
        return len(self._outbox) + len(self._waiting) + len(self._unconfirmed)

    def stop(self, timeout_seconds: float) -> bool:
        """Sends what is left, for at most the timeout; whether all of it was acknowledged."""
        self._stop_at = time.monotonic() + timeout_seconds
        self._stopping.set()
        self._outbox.wake()
        self.join(timeout_seconds)
        return not self.is_alive() and self._is_done()

    def run(self) -> None:
        try:
            while not self._finished():
                self._round()
        except Exception as error:  # a defect or a missing library must not reach the training job
            self._notices.warn("sender", f"Holter sends nothing more ({error!r}); training is not affected")
            self._outbox.closed = True
        if self._publisher is not None:
            self._publisher.close(max(0.1, min(1.0, self._stop_at - time.monotonic())))

    def _round(self) -> None:
        try:
            if self._publisher is None:
                self._publisher = self._connect().publisher(self._destination.client_id)
                self.num_connections += 1
            self._take()
            self._publish(self._publisher)
        except BusError as error:
            self._break(error)

    def _finished(self) -> bool:
        return self._stopping.is_set() and (self._is_done() or time.monotonic() >= self._stop_at)

    def _is_done(self) -> bool:
        return self.num_left == 0

    def _take(self) -> None:
        if self._waiting:
            return
        stale_seconds = self._cutter.cut_stale()
        if stale_seconds is not None and len(self._outbox) == 0:
            self._stopping.wait(stale_seconds)  # else nothing is due; who waits for no bell is cheaper to put to
        elif not self._cutter.cuts:
            self._receive()
        self._encode()

    def _receive(self) -> None:
        handover = self._outbox.get(self._patience_seconds())
        if handover is None:
            self._idle()
            return
        if isinstance(handover, (Logged, CountedStep)):
            num_dropped = self._outbox.num_dropped
            self._cutter.lose(num_dropped - self._num_lost)
            self._num_lost = num_dropped
        self._cutter.take(handover)

    def _encode(self) -> None:
        cuts = self._cutter.cuts
        while cuts:
            raw = self._encoder.encode(cuts.popleft(), self._clock_ms())
            if raw is not None:
                self._waiting.append(raw)

    def _patience_seconds(self) -> float:
        seconds = self._confirm_seconds if self._unconfirmed else _IDLE_SECONDS
        return min(seconds, _LAST_CONFIRM_SECONDS) if self._stopping.is_set() else seconds

    def _publish(self, publisher: Publisher) -> None:
        if self._unconfirmed and time.monotonic() - self._unconfirmed_since > _BUSY_CONFIRM_SECONDS:
            self._confirm(publisher, _MAX_CONFIRM_SECONDS)
        while self._waiting:
            if self._is_full() and not self._confirm(publisher, _MAX_CONFIRM_SECONDS):
                return
            raw = self._waiting[0]
            publisher.publish(self._destination.topic, self._destination.key, raw)
            self._waiting.popleft()
            self._last_sent_at = time.monotonic()
            if not self._unconfirmed:
                self._unconfirmed_since = self._last_sent_at
            self._unconfirmed.append(raw)
            self._num_unconfirmed_bytes += len(raw)
        if self._unconfirmed and self._stopping.is_set() and len(self._outbox) == 0:
            self._confirm(publisher, _LAST_CONFIRM_SECONDS)

    def _is_full(self) -> bool:
        return len(self._unconfirmed) >= _MAX_UNCONFIRMED or self._num_unconfirmed_bytes >= _MAX_UNCONFIRMED_BYTES

    def _idle(self) -> None:
        if self._unconfirmed and self._publisher is not None:
            self._confirm(self._publisher, 0.0)
        elif time.monotonic() - self._last_sent_at >= _HEARTBEAT_SECONDS:
            self._outbox.put(Happened(Heartbeat(self.phase), None, self._clock_ms()))

    def _confirm(self, publisher: Publisher, timeout_seconds: float) -> bool:
        """Asks whether all was acknowledged; while it was not, asks less often.

        Raises:
            BusError: nothing was acknowledged for so long that this publisher is given up.
        """
        if publisher.flush(timeout_seconds):
            self._confirmed()
            return True
        silent_seconds = time.monotonic() - self._unconfirmed_since
        if silent_seconds > _GIVEN_UP_SECONDS:
            raise BusError(f"no acknowledgement for {silent_seconds:.0f} s", retriable=True)
        if silent_seconds > _SILENT_SECONDS:
            self._report("it does not answer")
        self._confirm_seconds = min(2 * self._confirm_seconds, _MAX_CONFIRM_SECONDS)
        return False

    def _confirmed(self) -> None:
        self.num_sent += len(self._unconfirmed)
        self._unconfirmed.clear()
        self._num_unconfirmed_bytes = self._num_refusals_in_a_row = 0
        self._confirm_seconds, self._backoff_seconds = _CONFIRM_SECONDS, _FIRST_BACKOFF_SECONDS
        self._notices.clear("bus", "Holter reaches the bus again")

    def _break(self, error: BusError) -> None:
        """Gives the publisher up; what it had not delivered goes first with the next one."""
        if self._publisher is not None:
            self._publisher.close(0.5)
            self._publisher = None
        self._waiting.extendleft(reversed(self._unconfirmed))
        self._unconfirmed.clear()
        self._num_unconfirmed_bytes = 0
        self._num_refusals_in_a_row = 0 if error.retriable else self._num_refusals_in_a_row + 1
        if self._num_refusals_in_a_row >= _MAX_REFUSALS and self._waiting:
            self.num_refused += len(self._waiting)
            self._num_refusals_in_a_row = 0
            self._waiting.clear()
        self._report(str(error))
        self._stopping.wait(min(self._backoff_seconds, max(0.0, self._stop_at - time.monotonic())))
        if self._stopping.is_set():
            time.sleep(0.02)
        self._backoff_seconds = min(2 * self._backoff_seconds, _MAX_BACKOFF_SECONDS)

    def _report(self, why: str) -> None:
        self._notices.warn("bus", f"Holter cannot reach the bus and goes on trying; training is not affected: {why}")
