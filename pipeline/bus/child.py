"""A process at the other end of two pipes that carries, or keeps, a process's messages."""

from __future__ import annotations

import io
import os
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

from holter.pipeline.bus.contract import BusError, Start
from holter.pipeline.bus.frames import (
    Confirm,
    Connect,
    Delivered,
    Failed,
    News,
    Order,
    Publish,
    Read,
    Ready,
    decode_news,
    frame,
    read_frames,
)
from holter.schemas.topics import Topic

_START_SECONDS = 60.0
_FULL_SECONDS = 10.0
_LAST_WORD_SECONDS = 0.2
_END = struct.pack(">I", 0)
"""An empty frame: no more orders come. End of file would not do, where a forked worker still has the pipe open."""


class Process(Protocol):
    """What is asked of a recorder's process, as of :class:`subprocess.Popen`."""

    @property
    def stdin(self) -> Any: ...

    @property
    def stdout(self) -> Any: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


Spawn = Callable[[], Process]


def spawn_module(module: str) -> Spawn:
    """Starts a module of Holter's as a process; what it gives raises OSError."""
    return lambda: subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )


class Child:
    """The parent's side of one such process: a bounded way in, and a thread that sorts what comes out.

    ``what`` names the process in errors.
    """

    def __init__(self, spawn: Spawn, connect: Connect, what: str) -> None:
        self.pid = os.getpid()
        self.gone = False
        self._what = what
        self.changed = threading.Condition()
        self.num_published = self.num_delivered = self._num_asked = 0
        self.failure: Failed | None = None
        self._readers: dict[int, SimpleQueue[News | None]] = {}
        self._ready = threading.Event()
        try:
            self._process = spawn()
        except OSError as error:
            raise BusError(f"the {self._what} process cannot be started: {error}", retriable=True) from None
        self._inlet = _Inlet(self._process.stdin.fileno())
        threading.Thread(target=self._sort, name=f"holter-{what}", daemon=True).start()
        self.send(connect)
        self._await_ready()

    def send(self, order: Order) -> None:
        """Raises BusError when the process is gone or takes nothing any more; it is ended then."""
        if self.gone:
            raise BusError(self._gone_text(), retriable=True)
        try:
            self._inlet.write(frame(order), _FULL_SECONDS)
        except TimeoutError:
            self._process.kill()
            self._lose()
            raise BusError(f"the {self._what} process took nothing for {_FULL_SECONDS:.0f} s", retriable=True) from None
        except OSError:
            self._lose()
            raise BusError(self._gone_text(), retriable=True) from None

    def publish(self, order: Publish) -> None:
        if self.failure is not None:
            raise BusError(self.failure.detail, retriable=self.failure.retriable)
        self.num_published += 1
        self.send(order)

    def await_delivery(self, timeout_seconds: float) -> bool:
        """Whether all that was published is acknowledged by then. Asks once; the answer may come after the timeout."""
        if max(self.num_delivered, self._num_asked) < self.num_published:
            self._num_asked = self.num_published
            with suppress(BusError):
                self.send(Confirm(self._num_asked))
        with self.changed:
            done = self.changed.wait_for(
                lambda: self.gone or self.failure is not None or self.num_delivered >= self.num_published,
                timeout_seconds,
            )
        return done and not self.gone and self.failure is None

    def open_reader(self, topics: Sequence[Topic], start: Start) -> tuple[int, SimpleQueue[News | None]]:
        with self.changed:
            number = len(self._readers) + 1
            news = self._readers[number] = SimpleQueue()
        self.send(Read(number, [topic.name for topic in topics], start))
        return number, news

    def end(self, timeout_seconds: float) -> None:
        """Lets the process finish what it has and end."""
        self.gone = True
        with suppress(OSError):
            self._inlet.write(_END, _LAST_WORD_SECONDS)
        self._inlet.close(self._process.stdin)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_seconds)

    def _gone_text(self) -> str:
        return f"the {self._what} process is gone"

    def _await_ready(self) -> None:
        if not self._ready.wait(_START_SECONDS):
            self._process.kill()
            raise BusError(f"the {self._what} process was not ready within {_START_SECONDS:.0f} s", retriable=True)
        if self.failure is not None or self.gone:
            failure = self.failure or Failed(self._gone_text(), True)
            raise BusError(failure.detail, retriable=failure.retriable)

    def _sort(self) -> None:
        for raw in read_frames(io.BufferedReader(self._process.stdout)):
            self._take(decode_news(raw))
        self._lose()

    def _take(self, news: News) -> None:
        if isinstance(news, Delivered):
            with self.changed:
                self.num_delivered = news.count
                self.changed.notify_all()
        elif isinstance(news, Ready):
            self._ready.set()
        elif isinstance(news, Failed):
            with self.changed:
                self.failure = news
                self.changed.notify_all()
            self._ready.set()
        else:
            self._readers[news.reader].put(news)

    def _lose(self) -> None:
        with self.changed:
            self.gone = True
            self.changed.notify_all()
            readers = list(self._readers.values())
        self._ready.set()
        for news in readers:
            news.put(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0)


class _Inlet:
    """Writes to a pipe without ever waiting in it. Thread-safe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._is_closed = False
        os.set_blocking(fd, False)

    def write(self, raw: bytes, full_seconds: float) -> None:
        """Raises TimeoutError when the pipe stays full for so long, OSError when nobody reads it any more."""
        left = memoryview(raw)
        with self._lock:
            if self._is_closed:
                raise BrokenPipeError
            while left:
                try:
                    left = left[os.write(self._fd, left) :]
                except BlockingIOError:
                    self._await_room(full_seconds)

    def close(self, stream: Any) -> None:
        with self._lock:
            self._is_closed = True
            with suppress(OSError):
                stream.close()

    def _await_room(self, seconds: float) -> None:
        waiting = select.poll()
        waiting.register(self._fd, select.POLLOUT)
        if not waiting.poll(seconds * 1000):
            raise TimeoutError
