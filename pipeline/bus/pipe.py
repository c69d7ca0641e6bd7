"""A Kafka bus whose client lives in another process, so that the one that uses it spends next to nothing on it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from holter.pipeline.bus.contract import BusError, Message, Start
from holter.pipeline.bus.frames import (
    Arrived,
    CloseReader,
    Connect,
    Delivered,
    Failed,
    News,
    Opened,
    Order,
    Publish,
    Read,
    Ready,
    decode_news,
    frame,
    read_frames,
)
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.topics import Topic

_START_SECONDS = 20.0
_GONE = "the courier process is gone"


class PipeBus:
    """Starts its courier when it is first needed, and another when that one is gone. Thread-safe."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._courier: _Courier | None = None

    def publisher(self, client_id: str) -> PipePublisher:
        """Blocks until the bus answers.

        Raises:
            BusError: it did not, or the courier could not be started.
        """
        return PipePublisher(self._running(client_id))

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> PipeReader:
        """Blocks until the topics can be read.

        Raises:
            BusError: they cannot.
        """
        return PipeReader(self._running(client_id), topics, start)

    def _running(self, client_id: str) -> _Courier:
        with self._lock:
            if self._courier is None or self._courier.gone or self._courier.pid != os.getpid():
                self._courier = _Courier(self._settings, client_id)
            return self._courier


class _Courier:
    """The parent's side of one courier process: a thread that sorts its news."""

    def __init__(self, settings: KafkaSettings, client_id: str) -> None:
        self.pid = os.getpid()
        self.gone = False
        self.changed = threading.Condition()
        self.num_published = 0
        self.num_delivered = 0
        self.failure: Failed | None = None
        self._readers: dict[int, queue.SimpleQueue[News | None]] = {}
        self._write_lock = threading.Lock()
        self._ready = threading.Event()
        command = [sys.executable, "-m", "holter.pipeline.bus.courier"]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise BusError(f"the courier process cannot be started: {error}", retriable=True) from None
        threading.Thread(target=self._sort, name="holter-courier", daemon=True).start()
        self.send(Connect(settings.bootstrap, settings.prefix, dict(settings.client), client_id))
        self._await_ready()

    def send(self, order: Order) -> None:
        """Raises BusError when the courier is gone."""
        if self.gone:
            raise BusError(_GONE, retriable=True)
        stdin = cast(BinaryIO, self._process.stdin)
        try:
            with self._write_lock:
                stdin.write(frame(order))
                stdin.flush()
        except (OSError, ValueError):
            self._lose()
            raise BusError(_GONE, retriable=True) from None

    def publish(self, order: Publish) -> None:
        if self.failure is not None:
            raise BusError(self.failure.detail, retriable=self.failure.retriable)
        self.num_published += 1
        self.send(order)

    def await_delivery(self, timeout_seconds: float) -> bool:
        with self.changed:
            done = self.changed.wait_for(
                lambda: self.gone or self.failure is not None or self.num_delivered >= self.num_published,
                timeout_seconds,
            )
        return done and not self.gone and self.failure is None

    def open_reader(self, topics: Sequence[Topic], start: Start) -> tuple[int, queue.SimpleQueue[News | None]]:
        with self.changed:
            number = len(self._readers) + 1
            news = self._readers[number] = queue.SimpleQueue()
        self.send(Read(number, [topic.name for topic in topics], start))
        return number, news

    def end(self, timeout_seconds: float) -> None:
        """Lets the courier deliver what it has and end."""
        self.gone = True
        with suppress(OSError, ValueError):
            cast(BinaryIO, self._process.stdin).close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_seconds)

    def _await_ready(self) -> None:
        if not self._ready.wait(_START_SECONDS):
            self._process.kill()
            raise BusError(f"the courier process was not ready within {_START_SECONDS:.0f} s", retriable=True)
        if self.failure is not None or self.gone:
            failure = self.failure or Failed(_GONE, True)
            raise BusError(failure.detail, retriable=failure.retriable)

    def _sort(self) -> None:
        for raw in read_frames(cast(BinaryIO, self._process.stdout)):
            news = decode_news(raw)
            if isinstance(news, Delivered):
                with self.changed:
                    self.num_delivered = news.count
                    self.changed.notify_all()
            elif isinstance(news, Ready):
                self._ready.set()
            elif isinstance(news, Failed) and news.reader is None:
                with self.changed:
                    self.failure = news
                    self.changed.notify_all()
                self._ready.set()
            else:
                self._readers[cast(int, news.reader)].put(news)
        self._lose()

    def _lose(self) -> None:
        with self.changed:
            self.gone = True
            self.changed.notify_all()
            readers = list(self._readers.values())
        self._ready.set()
        for news in readers:
            news.put(None)
        self._process.poll()


class PipePublisher:
    """A refused message breaks it for good, as it does Kafka's: close it, and the bus starts another courier."""

    def __init__(self, courier: _Courier) -> None:
        self._courier = courier
        self._closed = False

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        if self._closed:
            raise BusError("the publisher is closed", retriable=False)
        self._courier.publish(Publish(topic.name, key, value))

    def flush(self, timeout_seconds: float) -> bool:
        return self._courier.await_delivery(timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """Ends the courier, and with it the readers that share it."""
        self._closed = True
        self._courier.end(timeout_seconds)


class PipeReader:
    def __init__(self, courier: _Courier, topics: Sequence[Topic], start: Start) -> None:
        self._courier = courier
        self._waiting: deque[Arrived] = deque()
        self._caught_up = False
        self._number, self._news = courier.open_reader(topics, start)
        self._take(_START_SECONDS, until_opened=True)

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
            self._courier.send(CloseReader(self._number))

    def _take(self, timeout_seconds: float, until_opened: bool = False) -> None:
        """Waits for news of this reader.

        Raises:
            BusError: it failed, the courier is gone, or (where it is opened) nothing came.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                news = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                if until_opened:
                    raise BusError("the courier did not open the reader", retriable=True) from None
                return
            if news is None:
                raise BusError(_GONE, retriable=True)
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
