"""Messages between a process and its courier: a length in four bytes, then msgpack."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
from msgspec import Struct

_LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 64 * 1024 * 1024


class Connect(Struct, tag=True, frozen=True):
    """The first frame: where the bus is. It travels by the pipe, since it may hold secrets."""

    bootstrap: str
    prefix: str
    client: dict[str, str | int]
    client_id: str


class Publish(Struct, tag=True, frozen=True):
    topic: str
    key: bytes
    value: bytes


class Confirm(Struct, tag=True, frozen=True):
    """Asks to be told once so many of the published messages are acknowledged. Without it a courier does not tell:
    each word wakes a thread that takes the interpreter from the training thread."""

    count: int


class Read(Struct, tag=True, frozen=True):
    """Opens a reader, whose messages come under this number."""

    reader: int
    topics: list[str]
    start: str | int


class CloseReader(Struct, tag=True, frozen=True):
    reader: int


Order = Connect | Publish | Confirm | Read | CloseReader


class Ready(Struct, tag=True, frozen=True):
    """The bus answered."""


class Delivered(Struct, tag=True, frozen=True):
    """How many of the published messages were acknowledged so far."""

    count: int


class Opened(Struct, tag=True, frozen=True):
    reader: int
    caught_up: bool


class Arrived(Struct, tag=True, frozen=True):
    """``messages`` are the fields of :class:`~holter.pipeline.bus.contract.Message`."""

    reader: int
    messages: list[tuple[str, int, int, int, bytes | None, bytes | None]]
    caught_up: bool


class Failed(Struct, tag=True, frozen=True):
    """A reader failed; without one, the publisher did."""

    detail: str
    retriable: bool
    reader: int | None = None


News = Ready | Delivered | Opened | Arrived | Failed

_ENCODE = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_news = msgspec.msgpack.Decoder(News).decode


def frame(body: Order | News) -> bytes:
    raw = _ENCODE(body)
    return _LENGTH.pack(len(raw)) + raw


def read_frames(stream: BinaryIO) -> Iterator[bytes]:
    """Frames until the other side is gone; a frame that is cut off ends them."""
    while True:
        head = stream.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return
        (size,) = _LENGTH.unpack(head)
        body = stream.read(size) if size <= MAX_FRAME_BYTES else b""
        if len(body) < size:
            return
        yield body
