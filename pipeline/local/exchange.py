"""Hands messages to the readers of their topics, inside the recorder."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from holter.pipeline.bus.frames import Arrived, News, Opened, Read
from holter.schemas.topics import RANKS, TELEMETRY

MAX_KEPT = 100
_NOT_KEPT = frozenset({TELEMETRY.name, RANKS.name})

Kept = tuple[str, int, int, int, bytes | None, bytes | None]
"""The fields of :class:`~holter.pipeline.bus.contract.Message`."""


class Exchange:
    """The newest 100 messages of a topic are kept for readers that open later; of telemetry, which is large, none."""

    def __init__(self, tell: Callable[[News], None]) -> None:
        self._tell = tell
        self._num_by_topic: Counter[str] = Counter()
        self._kept: dict[str, deque[Kept]] = {}
        self._readers: dict[int, frozenset[str]] = {}

    def put(self, topic: str, key: bytes, value: bytes, ts: int) -> None:
        message: Kept = (topic, 0, self._num_by_topic[topic], ts, key, value)
        self._num_by_topic[topic] += 1
        if topic not in _NOT_KEPT:
            self._kept.setdefault(topic, deque(maxlen=MAX_KEPT)).append(message)
        for reader, topics in self._readers.items():
            if topic in topics:
                self._tell(Arrived(reader, [message], True))

    def open(self, order: Read) -> None:
        messages = [message for topic in order.topics for message in self._since(topic, order.start)]
        self._readers[order.reader] = frozenset(order.topics)
        self._tell(Opened(order.reader, not messages))
        if messages:
            self._tell(Arrived(order.reader, messages, True))

    def close(self, reader: int) -> None:
        self._readers.pop(reader, None)

    def kept(self) -> list[Kept]:
        return [message for messages in self._kept.values() for message in messages]

    def restore(self, messages: Iterable[Kept]) -> None:
        for topic, _, _, ts, key, value in messages:
            self.put(topic, key or b"", value or b"", ts)

    def _since(self, topic: str, start: str | int) -> Sequence[Kept]:
        messages = self._kept.get(topic, ())
        if start == "latest":
            return ()
        return [message for message in messages if start == "earliest" or message[3] >= int(start)]
