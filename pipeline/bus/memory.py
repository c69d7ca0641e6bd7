"""A bus inside one process: for tests, replay and local mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holter.pipeline.bus.contract import BusError, Message, Start
from holter.schemas.topics import Topic


class MemoryBus:
    """Keeps every message in order of publication, one partition a topic. Thread-safe."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._logs: dict[str, list[Message]] = {}
        self.changed = threading.Condition()

    def publisher(self, client_id: str) -> MemoryPublisher:
        return MemoryPublisher(self)

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> MemoryReader:
        return MemoryReader(self, topics, start)

    def append(self, topic: Topic, key: bytes, value: bytes) -> None:
        with self.changed:
            log = self._logs.setdefault(topic.name, [])
            log.append(Message(topic.name, 0, len(log), self._clock_ms(), key, value))
            self.changed.notify_all()

    def log(self, topic: Topic) -> list[Message]:
        """All messages of a topic."""
        return list(self._logs.get(topic.name, ()))


class MemoryPublisher:
    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._closed = False

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        if self._closed:
            raise BusError("the publisher is closed", retriable=False)
        self._bus.append(topic, key, value)

    def flush(self, timeout_seconds: float) -> bool:
        return True

    def close(self, timeout_seconds: float) -> None:
        self._closed = True


class MemoryReader:
    def __init__(self, bus: MemoryBus, topics: Sequence[Topic], start: Start) -> None:
        self._bus = bus
        self._topics = tuple(topics)
        self._ends = {topic.name: len(bus.log(topic)) for topic in topics}
        self._next = {topic.name: _start_offset(bus.log(topic), start) for topic in topics}

    def poll(self, timeout_seconds: float) -> list[Message]:
        with self._bus.changed:
            self._bus.changed.wait_for(self._has_more, timeout_seconds)
            return [message for topic in self._topics for message in self._take(topic)]

    def caught_up(self) -> bool:
        return all(self._next[name] >= end for name, end in self._ends.items())

    def close(self) -> None:
        pass

    def _has_more(self) -> bool:
        return any(len(self._bus.log(topic)) > self._next[topic.name] for topic in self._topics)

    def _take(self, topic: Topic) -> list[Message]:
        messages = self._bus.log(topic)[self._next[topic.name] :]
        self._next[topic.name] += len(messages)
        return messages


def _start_offset(log: list[Message], start: Start) -> int:
    if start == "earliest":
        return 0
    if start == "latest":
        return len(log)
    return next((message.offset for message in log if message.timestamp_ms >= start), len(log))


if TYPE_CHECKING:
    from holter.pipeline.bus.contract import Bus

    _conforms: type[Bus] = MemoryBus
