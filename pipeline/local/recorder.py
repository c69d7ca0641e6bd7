"""The recorder: judges and spools one run in a process of its own, beside the trainer, without Kafka, Flink or Java.

It takes the same orders as the courier to Kafka (:mod:`holter.pipeline.bus.frames`), so that to a trainer it is a bus
like any other. :class:`~holter.pipeline.bus.frames.Connect` says where and how: ``bootstrap`` is the run's folder;
``client`` has ``key_id``, ``secret`` (hex) and ``epoch`` where the run is to be judged, and nothing where it is only
to be recorded. The key is the session's own: made by the trainer, and known to no one else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from holter.pipeline.bus.frames import (
    CloseReader,
    Connect,
    Delivered,
    Failed,
    News,
    Publish,
    Read,
    Ready,
    decode_order,
    frame,
    read_frames,
)
from holter.pipeline.core.run_operator import Deployment, watch
from holter.pipeline.local.exchange import Exchange
from holter.pipeline.local.run_folder import RunFolder
from holter.pipeline.local.session import Session
from holter.pipeline.local.spool import Spool, SpoolError, SpoolInUse
from holter.schemas import Key

_LOCK_SECONDS = 10.0
_LOCK_PAUSE_SECONDS = 0.05

_logger = logging.getLogger("holter.pipeline.local")


class _Signing(Struct, forbid_unknown_fields=True):
    key_id: str
    secret: str
    epoch: int


class Recorder:
    """Obeys until its orders end: with the stream, or at an empty frame."""

    def __init__(self, orders: BinaryIO, news: BinaryIO, clock_ms: Callable[[], int]) -> None:
        self._orders = orders
        self._news = news
        self._clock_ms = clock_ms
        self._num_delivered = 0
        self._is_heard = True

    def run(self) -> None:
        frames = read_frames(self._orders)
        first = next(frames, None)
        if first is None:
            return
        connect = decode_order(first)
        assert isinstance(connect, Connect)
        folder = RunFolder(Path(connect.bootstrap))
        log = _log_to(folder.log)
        try:
            self._record(folder, _deployment(connect), frames)
        except Exception as error:  # whatever it is, the trainer is told, and goes on
            _logger.warning("the run cannot be recorded", exc_info=not isinstance(error, (SpoolError, OSError)))
            self._tell(Failed(f"the run cannot be recorded: {error}", retriable=True))
        finally:
            _logger.removeHandler(log)

    def _record(self, folder: RunFolder, deployment: Deployment | None, frames: Iterator[bytes]) -> None:
        exchange = Exchange(self._tell)
        with closing(_open_spool(folder.spool)) as spool:
            session = Session(folder, spool, exchange, deployment)
            self._tell(Ready())
            try:
                self._obey(frames, session, exchange)
            finally:
                session.keep_state()

    def _obey(self, frames: Iterator[bytes], session: Session, exchange: Exchange) -> None:
        for raw in frames:
            if not raw:
                return
            order = decode_order(raw)
            if isinstance(order, Publish):
                session.take(order.topic, order.key, order.value, self._clock_ms())
                self._num_delivered += 1
                self._tell(Delivered(self._num_delivered))
            elif isinstance(order, Read):
                exchange.open(order)
            elif isinstance(order, CloseReader):
                exchange.close(order.reader)

    def _tell(self, news: News) -> None:
        if self._is_heard:
            try:
                self._news.write(frame(news))
                self._news.flush()
            except OSError:  # the trainer is gone; what it said before is still to be recorded
                self._is_heard = False


def _deployment(connect: Connect) -> Deployment | None:
    if not connect.client:
        return None
    signing = msgspec.convert(connect.client, _Signing)
    return watch(Key(signing.key_id, "issuer", bytes.fromhex(signing.secret)), None, signing.epoch)


def _open_spool(path: Path) -> Spool:
    """Waits for a recorder before this one, which may be at its last record."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return Spool.open(path)
        except SpoolInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOCK_PAUSE_SECONDS)


def _log_to(path: Path) -> logging.Handler:
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    _logger.addHandler(handler)
    return handler
