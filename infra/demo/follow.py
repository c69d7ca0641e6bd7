"""Listens to what is said about a run while it trains, as any consumer of the topics could."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holter.pipeline.bus import Message
from holter.pipeline.bus.kafka import KafkaBus
from holter.schemas import InvalidRecord
from holter.schemas.signed import open_unverified
from holter.schemas.telemetry import Ack
from holter.schemas.topics import BY_NAME, CONTROL, DECISIONS, SIGNALS, TELEMETRY

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Heard:
    """A signal, decision, action, outcome or acknowledgement, and when it was read."""

    record: Any
    heard_ms: int

    @property
    def latency_ms(self) -> int:
        """From the trainer's clock at the step that caused it to this process."""
        return self.heard_ms - int(getattr(self.record, "decided_ts", None) or self.record.ts)


class Follower(threading.Thread):
    """Keeps what it hears, in order, and tells ``on_heard`` of it."""

    def __init__(self, bus: KafkaBus, on_heard: Callable[[Heard], None]) -> None:
        super().__init__(name="demo-follower", daemon=True)
        self.heard: list[Heard] = []
        self._reader = bus.reader([SIGNALS, DECISIONS, CONTROL, TELEMETRY], "latest", "holter-demo")
        self._on_heard = on_heard
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._reader.poll(_POLL_SECONDS):
                self._hear(message)
        self._reader.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(5.0)

    def of_run(self, run: str) -> list[Heard]:
        return [heard for heard in self.heard if heard.record.run == run]

    def _hear(self, message: Message) -> None:
        topic = BY_NAME[message.topic]
        try:
            value = message.value or b""
            record = topic.decoder.decode(open_unverified(value).body if topic.role else value)
        except InvalidRecord:
            return
        if topic is TELEMETRY and not isinstance(record, Ack):
            return
        heard = Heard(record, time.time_ns() // 1_000_000)
        self.heard.append(heard)
        self._on_heard(heard)
