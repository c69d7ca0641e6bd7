"""Buses that misbehave."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from holter.pipeline.bus import Bus, BusError, Publisher, Reader, Start
from holter.pipeline.bus.memory import MemoryBus
from holter.schemas.topics import Topic
from tests.producers.watch import now_ms


class AbsentBus:
    """Nobody answers, until :meth:`appear`."""

    def __init__(self) -> None:
        self.real = MemoryBus(now_ms)
        self.num_attempts = 0
        self._is_there = threading.Event()

    def appear(self) -> None:
        self._is_there.set()

    def publisher(self, client_id: str) -> Publisher:
        self.num_attempts += 1
        self._check()
        return self.real.publisher(client_id)

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> Reader:
        self._check()
        return self.real.reader(topics, start, client_id)

    def _check(self) -> None:
        if not self._is_there.is_set():
            raise BusError("no Kafka at nowhere:9092", retriable=True)


class StuckBus(AbsentBus):
    """Building a publisher waits until :meth:`appear`."""

    def _check(self) -> None:
        self._is_there.wait(20)


class BreakingBus:
    """Every publisher acknowledges nothing and breaks after some messages; a later one delivers."""

    def __init__(self, num_breaks: int = 1, after: int = 3) -> None:
        self.real = MemoryBus(now_ms)
        self.num_breaks, self.after = num_breaks, after

    def publisher(self, client_id: str) -> Publisher:
        if self.num_breaks > 0:
            self.num_breaks -= 1
            return _Breaking(self.after)
        return self.real.publisher(client_id)

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> Reader:
        return self.real.reader(topics, start, client_id)


class _Breaking:
    def __init__(self, after: int) -> None:
        self._left = after

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        if self._left == 0:
            raise BusError("an earlier message was refused", retriable=False)
        self._left -= 1

    def flush(self, timeout_seconds: float) -> bool:
        return False

    def close(self, timeout_seconds: float) -> None:
        pass


def conforms() -> tuple[Bus, ...]:
    return AbsentBus(), StuckBus(), BreakingBus()
