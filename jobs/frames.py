"""The byte arrays that cross between the Java classes and Python.

From the source (``KeyFrameDeserializer``), big endian::

    u8 flags | u8 topic length | u16 key length | i32 partition | i64 offset | i64 timestamp | i32 value length
    | topic | key | value

A row holds the frames of one key that came together (``GatheredFrames``), each after its length as an i32. To the
sink (``FrameSerializer``)::

    u8 topic index | u8 key length | key | value
"""

from __future__ import annotations

import struct
from typing import NamedTuple

KEY_MISSING = 1
VALUE_MISSING = 2
KEY_NOT_UTF8 = 4
KEY_TOO_LONG = 8
VALUE_TOO_LONG = 16

_HEAD = struct.Struct("!BBHiqqi")
_LENGTH = struct.Struct("!i")
HEAD_BYTES = _HEAD.size
MAX_OUTPUT_KEY_BYTES = 255

unpack_lengths = struct.Struct("!BBH").unpack_from
"""(flags, topic length, key length) of a frame: all that the common case needs."""


class Frame(NamedTuple):
    """One Kafka record. ``key`` and ``value`` may be cut, ``num_value_bytes`` is the whole length."""

    flags: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes
    num_value_bytes: int


def split(gathered: bytes) -> list[bytes]:
    """The frames of one row, in order."""
    found = []
    start = 0
    while start < len(gathered):
        (length,) = _LENGTH.unpack_from(gathered, start)
        start += _LENGTH.size + length
        found.append(gathered[start - length : start])
    return found


def gather(*frames: bytes) -> bytes:
    """The inverse of :func:`split`."""
    return b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames)


def parse(frame: bytes) -> Frame:
    """The whole frame; raises ``struct.error`` on fewer bytes than a head."""
    flags, topic_length, key_length, partition, offset, timestamp_ms, num_value_bytes = _HEAD.unpack_from(frame)
    key_start = HEAD_BYTES + topic_length
    key_end = key_start + key_length
    topic = frame[HEAD_BYTES:key_start].decode()
    return Frame(
        flags, topic, partition, offset, timestamp_ms, frame[key_start:key_end], frame[key_end:], num_value_bytes
    )


def build(frame: Frame) -> bytes:
    """The inverse of :func:`parse`."""
    topic = frame.topic.encode()
    head = _HEAD.pack(
        frame.flags,
        len(topic),
        len(frame.key),
        frame.partition,
        frame.offset,
        frame.timestamp_ms,
        frame.num_value_bytes,
    )
    return head + topic + frame.key + frame.value


def build_output(topic: int, key: bytes, value: bytes) -> bytes:
    """A record for topic number ``topic`` of the sink; the key has at most ``MAX_OUTPUT_KEY_BYTES``."""
    return bytes((topic, len(key))) + key + value


def parse_output(frame: bytes) -> tuple[int, bytes, bytes]:
    """The inverse of :func:`build_output`: (topic index, key, value)."""
    key_end = 2 + frame[1]
    return frame[0], frame[2:key_end], frame[key_end:]
