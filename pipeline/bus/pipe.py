"""Buses whose other end lives in another process, so that the one that uses them spends next to nothing on it."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holter.pipeline.bus.child import Child, Spawn, spawn_module
from holter.pipeline.bus.contract import BusError, Message, Start
from holter.pipeline.bus.frames import Arrived, CloseReader, Connect, Failed, Opened, Publish
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.topics import Topic

_OPEN_SECONDS = 20.0


class ChildBus:
    """Starts its process when it is first needed, and another when that one is gone. Thread-safe."""

    def __init__(self, what: str, spawn: Spawn, opening: Callable[[str], Connect]) -> None:
        """``opening`` makes the first order from a client's id."""
        self._what = what
        self._spawn = spawn
        self._opening = opening
        self._lock = threading.Lock()
        self._child: Child | None = None

    def publisher(self, client_id: str) -> PipePublisher:
        """Blocks until the process is ready.

        Raises:
            BusError: it is not, or could not be started.
        """
        return PipePublisher(self._running(client_id))

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> PipeReader:
        """Blocks until the process is ready.

        Raises:
            BusError: as :meth:`publisher`.
        """
        return PipeReader(self._running(client_id), topics, start)

    def _running(self, client_id: str) -> Child:
        with self._lock:
            if self._child is None or self._child.gone or self._child.pid != os.getpid():
                self._child = Child(self._spawn, self._opening(client_id), self._what)
            return self._child


class PipeBus(ChildBus):
    """Kafka, by a courier."""

    def __init__(self, settings: KafkaSettings) -> None:
        def connect(client_id: str) -> Connect:
            return Connect(settings.bootstrap, settings.prefix, dict(settings.client), client_id)

        super().__init__("courier", spawn_module("holter.pipeline.bus.courier"), connect)


class PipePublisher:
    """A refused message breaks it for good, as it does Kafka's: close it, and the bus starts another process."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._closed = False

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        if self._closed:
            raise BusError("the publisher is closed", retriable=False)
        self._child.publish(Publish(topic.name, key, value))

    def flush(self, timeout_seconds: float) -> bool:
        return self._child.await_delivery(timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """Ends the process, and with it the readers that share it."""
        self._closed = True
        self._child.end(timeout_seconds)


class PipeReader:
    def __init__(self, child: Child, topics: Sequence[Topic], start: Start) -> None:
        self._child = child
        self._waiting: deque[Arrived] = deque()
        self._caught_up = False
        self._number, self._news = child.open_reader(topics, start)
        self._take(_OPEN_SECONDS, until_opened=True)

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        self._take(timeout_seconds)
        messages: list[Message] = []
        while self._waiting:
            arrived = self._waiting.popleft()
            messages += [Message(*fields) for fields in arrived.messages]
            self._caught_up = self._caught_up or arrived.caught_up
        return messages

    def caught_up(self) -> bool:
        return self._caught_up

    def close(self) -> None:
        with suppress(BusError):
            self._child.send(CloseReader(self._number))

    def _take(self, timeout_seconds: float, until_opened: bool = False) -> None:
        """Waits for news of this reader.

        Raises:
            BusError: it failed, the process is gone, or (where it is opened) nothing came.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                news = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                if until_opened:
                    raise BusError("the process did not open the reader", retriable=True) from None
                return
            if news is None:
                raise BusError("the process is gone", retriable=True)
            if isinstance(news, Failed):
                raise BusError(news.detail, retriable=news.retriable)
            if isinstance(news, Opened):
                self._caught_up = news.caught_up
                return
            if isinstance(news, Arrived):
                self._waiting.append(news)
                if self._news.empty():
                    return


if TYPE_CHECKING:
    from holter.pipeline.bus.contract import Bus

    _conforms: type[Bus] = PipeBus
