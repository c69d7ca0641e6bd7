"""A trivial operator: counts, chains a checksum over what it saw, and echoes both."""

from __future__ import annotations

import zlib

import msgspec

from holter.jobs.keyed import Restore
from holter.pipeline.core.operator import Output
from holter.pipeline.core.set_aside import RunSetAside
from holter.schemas import InvalidRecord

ECHOES, DEAD_LETTERS = 0, 1
TIMER_DELAY_MS = 200


class Echo(msgspec.Struct):
    """Outputs are ``what:count:checksum``; the value ``timer`` asks for a timer, ``end`` for one
    after which the key is over, ``refuse`` is refused, and ``break`` meets a defect."""

    key: str
    count: int = 0
    checksum: int = 0
    wanted_ms: int | None = None
    ends: bool = False
    over: bool = False

    def update(self, source: str, value: bytes, now: int) -> list[Output]:
        if value == b"refuse":
            raise InvalidRecord("malformed", "asked for")
        if value == b"break":
            raise RunSetAside("broken", self._echo(b"broken"))
        if value == b"timer":
            self.wanted_ms = now + TIMER_DELAY_MS
        self.ends = value == b"end"
        if self.ends:
            self.wanted_ms = now + TIMER_DELAY_MS
        return self._echo(source.encode() + b"/" + value)

    def on_timer(self, now: int) -> list[Output]:
        self.wanted_ms = None
        self.over = self.ends
        return self._echo(b"timer")

    def deadline(self) -> int | None:
        return self.wanted_ms

    def is_over(self) -> bool:
        return self.over

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def _echo(self, what: bytes) -> list[Output]:
        self.count += 1
        self.checksum = zlib.crc32(what, self.checksum)
        return [Output(ECHOES, self.key.encode(), b"%s:%d:%d" % (what, self.count, self.checksum))]


def restore(key: str, snapshot: bytes | None) -> Echo:
    if snapshot is None:
        return Echo(key)
    return msgspec.msgpack.decode(snapshot, type=Echo)


def open_echoes() -> Restore:
    return restore
