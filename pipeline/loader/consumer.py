"""What the loader asks of whoever delivers messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holter.pipeline.loader.batch import Partition
from holter.pipeline.loader.decode import Message

GROUP = "holter-loader"


class Consumer(Protocol):
    """Not thread-safe: one thread owns it. Every method may raise ``BusError``."""

    def poll(self, timeout_ms: int) -> Sequence[Sequence[Message]]:
        """The next messages by partition, each in its order."""

    def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        """Notes how far is loaded. What was not noted is read again, here or by another member."""

    def keep_alive(self) -> None:
        """Stays a member of the group without reading on; the next ``poll`` continues where the last one ended."""

    def close(self) -> None: ...


def group_name(prefix: str) -> str:
    """The consumer group under one prefix of the topics."""
    return f"{prefix}-{GROUP}" if prefix else GROUP
