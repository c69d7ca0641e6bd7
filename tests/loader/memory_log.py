"""Topics in memory, with the offsets that a group committed: what a consumer leaves behind when it is killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from holter.pipeline.bus import BusError, Publisher
from holter.pipeline.loader.batch import Partition
from holter.schemas import encode
from holter.schemas.topics import RANKS, Topic
from tests.schemas.examples import KEY

START_MS = 1_764_460_000_000


class LogMessage(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class MemoryLog:
    def __init__(self) -> None:
        self.messages: dict[Partition, list[LogMessage]] = {}
        self.committed: dict[Partition, int] = {}

    def append(self, topic: Topic, record: msgspec.Struct, partition: int = 0) -> None:
        """As its writer would send it: signed where the topic is, with the key of its run."""
        body = encode(record)
        value = KEY.sign(body) if topic.role is not None else body
        key = f"{getattr(record, 'project', '')}/{getattr(record, 'run', '')}"
        if topic is RANKS:
            key += f"/{record.rank}"  # type: ignore[attr-defined]
        self.append_raw(topic.name, key.encode(), value, partition)

    def append_raw(self, topic: str, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        messages = self.messages.setdefault((topic, partition), [])
        messages.append(LogMessage(topic, partition, len(messages), START_MS + len(messages), key, value))


class LogConsumer:
    """Begins at the committed offsets; delivers at most ``poll_size`` messages of a partition at once."""

    def __init__(self, log: MemoryLog, poll_size: int) -> None:
        self.num_keep_alives = 0
        self._log = log
        self._poll_size = poll_size
        self._positions = dict(log.committed)

    def poll(self, timeout_ms: int) -> Sequence[Sequence[LogMessage]]:
        found = []
        for partition, messages in self._log.messages.items():
            start = self._positions.get(partition, 0)
            taken = messages[start : start + self._poll_size]
            self._positions[partition] = start + len(taken)
            if taken:
                found.append(taken)
        return found

    @property
    def has_more(self) -> bool:
        return any(self._positions.get(part, 0) < len(messages) for part, messages in self._log.messages.items())

    def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        self._log.committed.update(next_offsets)

    def keep_alive(self) -> None:
        self.num_keep_alives += 1

    def close(self) -> None:
        pass


class MemorySink:
    """Keeps what was inserted; ``fail`` may raise before a table is taken."""

    def __init__(self, fail: Callable[[str], None] = lambda table: None) -> None:
        self.inserted: list[tuple[str, str, pa.Table]] = []
        self.tried: list[tuple[str, str]] = []
        self._fail = fail

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self.tried.append((table, token))
        self._fail(table)
        self.inserted.append((table, token, rows))

    def rows(self, table: str) -> list[dict[str, object]]:
        return [row for name, _, rows in self.inserted if name == table for row in rows.to_pylist()]

    def close(self) -> None:
        pass


class MemoryPublisher:
    def __init__(self) -> None:
        self.published: list[tuple[str, bytes, bytes]] = []

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        self.published.append((topic.name, key, value))

    def flush(self, timeout_seconds: float) -> bool:
        return True

    def close(self, timeout_seconds: float) -> None:
        pass


def no_publisher() -> Publisher:
    raise BusError("no dead letter was expected", retriable=False)
