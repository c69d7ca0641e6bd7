"""Hears what Holter says of a run, beside its training thread: signals from the bus, and the run's own answers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holter.pipeline.bus import Bus, Message
from holter.producers.handover import Response
from holter.producers.integrations.findings import Tell, answer_finding, signal_finding
from holter.producers.notices import Notices
from holter.producers.run import Run
from holter.schemas import InvalidRecord
from holter.schemas.topics import SIGNALS, check_key

_POLL_SECONDS = 0.5
_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0


class Follower:
    """Tells findings from the run's first value on. ``tell`` is called on several threads; what it raises is noted.

    A disabled run has none. Signals that come after ``run.finish()`` are not told.
    """

    def __init__(self, run: Run, tell: Tell) -> None:
        self._run = run
        self._tell = tell
        self._thread: _SignalThread | None = None
        self._take_back = _before_each(run, "respond", self._answered)

    def start(self) -> None:
        """Further calls do nothing."""
        connect = self._run._settings.connect
        if self._thread is None and connect is not None and self._run.enabled:
            self._thread = _SignalThread(self._run, connect, self._tell)
            self._thread.start()

    def stop(self) -> None:
        """Does not wait for the thread: it ends at its next poll."""
        self._take_back()
        if self._thread is not None:
            self._thread.stopping.set()

    def _answered(self, response: Response) -> None:
        told(self._run.notices, lambda: self._tell(answer_finding(response)))


class _SignalThread(threading.Thread):
    def __init__(self, run: Run, connect: Callable[[], Bus], tell: Tell) -> None:
        super().__init__(name="holter-signals", daemon=True)
        self.stopping = threading.Event()
        self._key = f"{run.project}/{run.name}".encode()
        self._client_id = f"holter-trainer-{run.name}-{SIGNALS.name}"
        self._connect = connect
        self._run = run
        self._next_ms = run._settings.clock_ms()
        self._tell = tell

    def run(self) -> None:
        backoff_seconds = _FIRST_BACKOFF_SECONDS
        while not self.stopping.is_set():
            try:
                self._read()
            except ImportError as error:
                self._run.notices.warn("signals", f"signals cannot be read: {error}")
                return
            except Exception as error:  # whatever it is, it must not reach the training job
                if self.stopping.is_set() or not self._run.enabled:
                    return  # the bus ended with the run
                self._run.notices.warn("signals", f"signals cannot be read at present: {error!r}")
            self.stopping.wait(backoff_seconds)
            backoff_seconds = min(2 * backoff_seconds, _MAX_BACKOFF_SECONDS)

    def _read(self) -> None:
        reader = self._connect().reader([SIGNALS], self._next_ms, self._client_id)
        try:
            while not self.stopping.is_set():
                for message in reader.poll(_POLL_SECONDS):
                    self._take(message)
        finally:
            reader.close()

    def _take(self, message: Message) -> None:
        self._next_ms = max(self._next_ms, message.timestamp_ms)
        if message.key != self._key or message.value is None:
            return
        try:
            signal = SIGNALS.decoder.decode(message.value)
            check_key(self._key.decode(), signal)
        except InvalidRecord as error:
            self._run.notices.warn(error.reason, f"a signal was left out: {error}")
            return
        told(self._run.notices, lambda: self._tell(signal_finding(signal)))


def told(notices: Notices, tell: Callable[[], None]) -> None:
    """A tracker's error is noted and stays here."""
    try:
        tell()
    except Exception as error:  # a stranger's tracker may raise anything
        notices.warn("tracker", f"the tracker did not take what Holter said: {error!r}")


def _before_each(run: Run, method: str, hear: Callable[[Response], None]) -> Callable[[], None]:
    own = getattr(run, method)

    def heard(response: Response) -> None:
        hear(response)
        own(response)

    setattr(run, method, heard)
    return lambda: vars(run).pop(method, None)
