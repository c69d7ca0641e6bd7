"""Bytes of a topic to a record, or to a dead letter that says why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from holter.schemas.dead_letter import MAX_KEPT_BYTES, DeadLetter
from holter.schemas.errors import InvalidRecord
from holter.schemas.signed import open_unverified
from holter.schemas.topics import DLQ, RANKS, Topic, check_key

READER = "loader"
_MAX_KEY_BYTES = 1024
_MAX_DETAIL = 2000


class Message(Protocol):
    """What a consumer delivers; ``topic`` is the full name, ``timestamp`` the broker's, in ms."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


@dataclass(frozen=True)
class Opened:
    """A record and who signed it; signatures are not verified, the store only keeps what was said."""

    record: msgspec.Struct
    key_id: str = ""


def open_message(message: Message, topic: Topic) -> Opened | None:
    """The record of a message; None for a tombstone of a compacted topic.

    Raises:
        InvalidRecord: it is none of this topic, or its key is another run's.
    """
    value = message.value
    if value is None:
        if topic.compacted:
            return None
        raise InvalidRecord("malformed", "the message has no value")
    key_id = ""
    if topic.role is not None:
        signed = open_unverified(value)
        value, key_id = signed.body, signed.key_id
    record = topic.decoder.decode(value)
    if topic is not DLQ:
        _check_key(message.key, record, topic)
    return Opened(record, key_id)


def dead_letter(message: Message, error: InvalidRecord, now_ms: int) -> DeadLetter:
    value = message.value or b""
    return DeadLetter(
        topic=message.topic[:200],
        partition=message.partition,
        offset=message.offset,
        ts=now_ms,
        reason=error.reason,
        detail=error.detail[:_MAX_DETAIL],
        reader=READER,
        num_bytes=len(value),
        key=(message.key or b"")[:_MAX_KEY_BYTES],
        value=value[:MAX_KEPT_BYTES],
    )


def _check_key(key: bytes | None, record: msgspec.Struct, topic: Topic) -> None:
    text = (key or b"").decode("utf-8", "replace")
    check_key(text.rpartition("/")[0] if topic is RANKS else text, record)
