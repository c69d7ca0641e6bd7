"""Recorders for tests: over bytes in memory, and in a thread behind real pipes."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holter.pipeline.bus.frames import Connect, News, Order, decode_news, frame, read_frames
from holter.pipeline.local.recorder import Recorder
from holter.pipeline.local.spool import Entry, SpoolReader
from holter.schemas import Key

SIGNER = Key("local-1", "issuer", b"s" * 32)
JUDGING: dict[str, str | int] = {"key_id": SIGNER.key_id, "secret": SIGNER.secret.hex(), "epoch": 7}


class Clock:
    """A tick a call."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1
        return self.now


def connect(folder: Path, client: dict[str, str | int] = JUDGING) -> Connect:
    return Connect(str(folder), "", client, "test")


def record(orders: Sequence[Order], clock: Clock, tail: bytes = b"") -> list[News]:
    """What a recorder says to these orders, which end with the stream."""
    news = io.BytesIO()
    Recorder(io.BytesIO(b"".join(map(frame, orders)) + tail), news, clock).run()
    return [decode_news(raw) for raw in read_frames(io.BytesIO(news.getvalue()))]


def entries(folder: Path) -> list[Entry]:
    return list(SpoolReader(folder / "records.spool"))


class ThreadProcess:
    """A recorder in a thread, with the face of a process. ``listens=False`` is one that hangs after it was ready."""

    def __init__(self, clock: Any, listens: bool = True) -> None:
        orders, self._orders_in = os.pipe()
        self._news_out, news = os.pipe()
        self.stdin = os.fdopen(self._orders_in, "wb", buffering=0)
        self.stdout = os.fdopen(self._news_out, "rb", buffering=0)
        self._orders, self._news = os.fdopen(orders, "rb"), os.fdopen(news, "wb")
        self.was_killed = False
        self._clock = clock
        self._thread = threading.Thread(target=self._record if listens else self._hang, daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int:
        self._thread.join(timeout)
        return 0

    def kill(self) -> None:
        self.was_killed = True
        self._news.close()

    def _record(self) -> None:
        Recorder(self._orders, self._news, self._clock).run()
        self._orders.close()
        self._news.close()

    def _hang(self) -> None:
        from holter.pipeline.bus.frames import Ready

        self._news.write(frame(Ready()))
        self._news.flush()
