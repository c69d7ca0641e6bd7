"""Reads what ``watch`` and people say about this run, off the training thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holter.pipeline.bus import Bus, BusError, Message, Reader, Start
from holter.producers.latch import ActionGate, Answer, Latched, Permissions
from holter.producers.notices import Notices
from holter.schemas import InvalidRecord, Keyring, codec
from holter.schemas.codec import Decoder
from holter.schemas.commands import Hold
from holter.schemas.control import Action, Health
from holter.schemas.topics import CONTROL, HOLDS, Topic, check_key

LONGEST_EXPIRY_MS = 600_000
_POLL_SECONDS = 0.5
_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0
_MAX_HEALTHY = 64


@dataclass(frozen=True)
class ControlSource:
    """Where control comes from and whose signatures count."""

    connect: Callable[[], Bus]
    keyring: Keyring
    client_id: str


class Control:
    """At most one latched action, the newest :class:`Health`, and whether the run is on hold.

    Reader threads fill it; the training thread asks :attr:`is_pending` at every boundary, an attribute read, and
    :meth:`take` when it is true. Nothing is handed out before all holds that existed at the start were read.
    """

    def __init__(
        self,
        project: str,
        run: str,
        attempt: int,
        permissions: Permissions,
        source: ControlSource,
        answer: Callable[[Answer], None],
        notices: Notices,
        clock_ms: Callable[[], int],
    ) -> None:
        self.health: Health | None = None
        self._healthy: deque[str] = deque(maxlen=_MAX_HEALTHY)
        self.is_pending = False
        self.num_invalid = 0
        self.latched = threading.Event()
        """Set at every latch; for measurements and tests."""
        self._key = f"{project}/{run}"
        self._gate = ActionGate(project, run, attempt, permissions)
        self._lock = threading.Lock()
        self._source = source
        self._answer = answer
        self._notices = notices
        self._clock_ms = clock_ms
        self._on_hold = False
        self._hold_changed_ts = 0
        self._stopping = threading.Event()
        start_ms = clock_ms() - LONGEST_EXPIRY_MS
        self._control = _ReaderThread("holter-control", CONTROL, start_ms, self._on_control, self)
        self._holds = _ReaderThread("holter-holds", HOLDS, "earliest", self._on_hold_state, self)

    def start(self) -> None:
        self._control.start()
        self._holds.start()

    def stop(self) -> None:
        """Does not wait for the threads: they end at their next poll."""
        self._stopping.set()

    @property
    def is_armed(self) -> bool:
        return self._holds.caught_up

    def begin_attempt(self, attempt: int) -> None:
        with self._lock:
            self._gate.begin_attempt(attempt)
            self.is_pending = False

    def take_healthy(self) -> list[str]:
        """The checkpoints that were called healthy since the last call, oldest first."""
        return [self._healthy.popleft() for _ in range(len(self._healthy))]

    @property
    def is_idle(self) -> bool:
        """Whether :meth:`is_due` and :meth:`take_healthy` have nothing to say at any step."""
        return not self.is_pending and not self._healthy

    def is_due(self, step: int) -> bool:
        """Whether :meth:`take` would hand out or answer something at the boundary after ``step``."""
        if not self.is_pending or not self.is_armed:
            return False
        with self._lock:
            return self._gate.is_due(step, self._clock_ms())

    def take(self, step: int) -> Latched | None:
        """The action to apply at the boundary after ``step``, if one is due."""
        if not self.is_armed:
            return None
        with self._lock:
            taken = self._gate.take(step, self._clock_ms(), self._on_hold)
            self.is_pending = self._gate.is_latched
        if isinstance(taken, Answer):
            self._answer(taken)
            return None
        return taken

    def record_applied(self, latched: Latched) -> None:
        with self._lock:
            self._gate.record_applied(latched)

    def _on_control(self, message: Message) -> None:
        body, record = self._verified(message, CONTROL, codec.control)
        if isinstance(record, Health):
            self._take_health(record)
        elif isinstance(record, Action):
            with self._lock:
                answers = self._gate.offer(record, body, self._clock_ms())
                self.is_pending = self._gate.is_latched
            if self.is_pending:
                self.latched.set()
            for answer in answers:
                self._answer(answer)

    def _take_health(self, health: Health) -> None:
        with self._lock:
            current = self._gate.see_epoch(health.issuer_epoch)
        newest = self.health
        if current and (newest is None or (health.attempt, health.step) >= (newest.attempt, newest.step)):
            self.health = health
            self._healthy.append(health.checkpoint)

    def _on_hold_state(self, message: Message) -> None:
        _, record = self._verified(message, HOLDS, codec.holds)
        if record.ts >= self._hold_changed_ts:
            self._hold_changed_ts, self._on_hold = record.ts, isinstance(record, Hold)

    def _verified(self, message: Message, topic: Topic, decoder: Decoder[Any]) -> tuple[bytes, Any]:
        if topic.role is None or message.value is None or message.key is None:
            raise InvalidRecord("malformed", "no value")
        body = self._source.keyring.open(message.value, topic.role)
        record = decoder.decode(body)
        check_key(message.key.decode(), record)
        return body, record

    def _receive(self, messages: Sequence[Message], handle: Callable[[Message], None]) -> None:
        key = self._key.encode()
        for message in messages:
            if message.key != key:
                continue
            try:
                handle(message)
            except InvalidRecord as error:
                self.num_invalid += 1
                self._notices.warn(error.reason, f"a record of {message.topic} was refused: {error}")


class _ReaderThread(threading.Thread):
    """Reads one topic for ever; after a failure it goes on where it was."""

    def __init__(
        self, name: str, topic: Topic, start: Start, handle: Callable[[Message], None], control: Control
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.caught_up = False
        self._topic = topic
        self._from = start
        self._handle = handle
        self._control = control
        self._backoff_seconds = _FIRST_BACKOFF_SECONDS

    def run(self) -> None:
        while not self._control._stopping.is_set():
            try:
                self._read()
            except ImportError as error:
                self._control._notices.warn(self.name, f"control cannot be read: {error}")
                return
            except Exception as error:  # whatever it is, it must not reach the training job
                if self._control._stopping.is_set():
                    return
                why = error if isinstance(error, BusError) else repr(error)
                self._control._notices.warn(self.name, f"control cannot be read at present: {why}")
            self._control._stopping.wait(self._backoff_seconds)
            self._backoff_seconds = min(2 * self._backoff_seconds, _MAX_BACKOFF_SECONDS)

    def _read(self) -> None:
        source = self._control._source
        reader = source.connect().reader([self._topic], self._from, f"{source.client_id}-{self._topic.name}")
        try:
            self._follow(reader)
        finally:
            reader.close()

    def _follow(self, reader: Reader) -> None:
        control = self._control
        self.caught_up = self.caught_up or reader.caught_up()
        control._notices.clear(self.name, "control can be read again")
        while not control._stopping.is_set():
            messages = reader.poll(_POLL_SECONDS)
            self._backoff_seconds = _FIRST_BACKOFF_SECONDS
            if messages:
                control._receive(messages, self._handle)
                if isinstance(self._from, int):
                    self._from = max(self._from, messages[-1].timestamp_ms)
            self.caught_up = self.caught_up or reader.caught_up()
