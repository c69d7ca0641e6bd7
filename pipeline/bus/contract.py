"""What Holter asks of a message bus. One suite of tests holds every implementation to it.

Order: what one publisher publishes under one key is read in that order. Delivery is at least once: a message may be
read twice, so every record carries its identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from holter.schemas.topics import Topic

Start = Literal["earliest", "latest"] | int
"""Where a reader begins: the oldest kept message, after the newest, or the first at or after a time in ms."""


class BusError(Exception):
    """The bus did not do what was asked. ``retriable`` says whether the same call may succeed later."""

    def __init__(self, detail: str, *, retriable: bool) -> None:
        super().__init__(detail)
        self.retriable = retriable


class Message(NamedTuple):
    topic: str
    """The name without a tenant's prefix."""
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Publisher(Protocol):
    """Not thread-safe: one thread owns it."""

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        """Hands a message over; it is delivered later. Does not wait for the bus.

        Raises:
            BusError: the message was not taken, or an earlier one was refused for good: close and build anew.
        """

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all that was handed over is acknowledged; False when the time was over first."""

    def close(self, timeout_seconds: float) -> None:
        """Never raises."""


class Reader(Protocol):
    """Reads all partitions of its topics, without a group. Not thread-safe: one thread owns it."""

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        """The next messages, at once when there are any, else none after the timeout.

        Raises:
            BusError: the bus cannot be read at present (retriable) or at all.
        """

    def caught_up(self) -> bool:
        """Whether all that lay in the topics when the reader was made has been returned by ``poll``."""

    def close(self) -> None:
        """Never raises."""


class Bus(Protocol):
    """Makes publishers and readers. Building one waits for the bus: never on a training thread."""

    def publisher(self, client_id: str) -> Publisher: ...

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> Reader: ...
