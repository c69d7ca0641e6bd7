"""The courier: carries a process's messages to and from Kafka, in a process of its own.

A Kafka client in Python costs some milliseconds of interpreter time a message. In the training process they would be
taken from the training thread, which needs the same interpreter between its kernels; here they are not.
Run by :class:`~holter.pipeline.bus.pipe.PipeBus`; ends when its standard input does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import BinaryIO

from holter.pipeline.bus.contract import BusError, Publisher, Reader
from holter.pipeline.bus.frames import (
    Arrived,
    CloseReader,
    Confirm,
    Connect,
    Delivered,
    Failed,
    News,
    Opened,
    Publish,
    Read,
    Ready,
    decode_order,
    frame,
    read_frames,
)
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.topics import BY_NAME

_POLL_SECONDS = 0.5
_LAST_FLUSH_SECONDS = 5.0


class Courier:
    """One bus, one publisher, any number of readers."""

    def __init__(self, orders: BinaryIO, news: BinaryIO) -> None:
        self._orders = orders
        self._news = news
        self._lock = threading.Lock()
        self._closing: dict[int, threading.Event] = {}
        self._counting = threading.Lock()
        self._num_delivered = self._num_wanted = 0

    def run(self) -> None:
        frames = read_frames(self._orders)
        first = next(frames, None)
        if first is None:
            return
        connect = decode_order(first)
        assert isinstance(connect, Connect)
        bus = KafkaBus(KafkaSettings(connect.bootstrap, connect.prefix, connect.client))
        try:
            publisher = bus.publisher(connect.client_id, self._on_delivered)
        except BusError as error:
            self._tell(Failed(str(error), error.retriable))
            return
        self._tell(Ready())
        for raw in frames:
            if not raw:  # the last word of the process it serves
                break
            self._obey(raw, bus, publisher, connect.client_id)
        publisher.flush(_LAST_FLUSH_SECONDS)
        publisher.close(1.0)

    def _obey(self, raw: bytes, bus: KafkaBus, publisher: Publisher, client_id: str) -> None:
        order = decode_order(raw)
        if isinstance(order, Publish):
            try:
                publisher.publish(BY_NAME[order.topic], order.key, order.value)
            except BusError as error:
                self._tell(Failed(str(error), error.retriable))
        elif isinstance(order, Confirm):
            self._confirm(order.count)
        elif isinstance(order, Read):
            closing = self._closing[order.reader] = threading.Event()
            threading.Thread(target=self._read, args=(order, bus, client_id, closing), daemon=True).start()
        elif isinstance(order, CloseReader):
            self._closing[order.reader].set()

    def _read(self, order: Read, bus: KafkaBus, client_id: str, closing: threading.Event) -> None:
        reader: Reader | None = None
        try:
            topics = [BY_NAME[name] for name in order.topics]
            reader = bus.reader(topics, order.start, f"{client_id}-{order.reader}")  # type: ignore[arg-type]
            caught_up = reader.caught_up()
            self._tell(Opened(order.reader, caught_up))
            while not closing.is_set():
                messages = [tuple(message) for message in reader.poll(_POLL_SECONDS)]
                if messages or (not caught_up and reader.caught_up()):
                    caught_up = caught_up or reader.caught_up()
                    self._tell(Arrived(order.reader, messages, caught_up))  # type: ignore[arg-type]
        except BusError as error:
            self._tell(Failed(str(error), error.retriable, order.reader))
        finally:
            if reader is not None:
                reader.close()

    def _confirm(self, count: int) -> None:
        with self._counting:
            self._num_wanted = count
            num_delivered = self._num_delivered
        if num_delivered >= count:
            self._tell(Delivered(num_delivered))

    def _on_delivered(self) -> None:
        with self._counting:
            self._num_delivered += 1
            is_wanted = self._num_delivered == self._num_wanted
        if is_wanted:
            self._tell(Delivered(self._num_delivered))

    def _tell(self, news: News) -> None:
        try:
            with self._lock:
                self._news.write(frame(news))
                self._news.flush()
        except OSError:
            os._exit(0)  # nobody listens any more


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process it serves decides when it ends
    try:
        Courier(sys.stdin.buffer, sys.stdout.buffer).run()
    finally:
        os._exit(0)  # the client's own threads would go on for as long as a broker that is gone does not answer


if __name__ == "__main__":
    main()
