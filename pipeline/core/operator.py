"""What a runtime (Flink, the in-process driver) asks of the code that keeps one key, and offers to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Output(NamedTuple):
    topic: int
    """Index into the job's tuple of output topics."""
    key: bytes
    value: bytes


class StateVersionError(Exception):
    """Stored state of a version that this release cannot read: the job must fail rather than start empty."""


class Operator(Protocol):
    """Everything that is known about one key. Deterministic: the same inputs give the same outputs and bytes.

    Times are milliseconds of the runtime's processing time, passed in. ``update``, ``on_timer`` and ``to_bytes`` may
    raise :class:`~holter.pipeline.core.set_aside.RunSetAside` in place of any other error: the operator has changed
    to a sound state, and goes on.
    """

    def update(self, source: str, value: bytes, now: int) -> list[Output]:
        """Takes one record of a topic, named without its prefix.

        Raises:
            InvalidRecord: the bytes are no record of the topic, or of another key: nothing has changed, and the
                runtime, which knows where they lay, sets them aside.
        """

    def on_timer(self, now: int) -> list[Output]: ...

    def deadline(self) -> int | None:
        """When ``on_timer`` wants to be called next."""

    def is_over(self) -> bool:
        """Whether nothing of the key need be kept any longer."""

    def to_bytes(self) -> bytes: ...


class KeyedState(Protocol):
    """What a runtime keeps durably for the current key."""

    def read_snapshot(self) -> bytes | None: ...

    def write_snapshot(self, value: bytes | None) -> None:
        """None forgets the key."""

    def read_journal(self) -> Iterable[bytes]: ...

    def append_journal(self, entry: bytes) -> None: ...

    def clear_journal(self) -> None: ...
