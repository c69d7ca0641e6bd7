"""What could not be read, kept for people."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from holter.schemas.bounds import Count, Millis, Short, Text

MAX_KEPT_BYTES = 512 * 1024


class DeadLetter(Struct, tag_field="record", tag="dead_letter", omit_defaults=True, frozen=True):
    """The bytes with where they lay and why they were refused. ``value`` is cut at 512 KiB, ``num_bytes`` is not."""

    VERSION: ClassVar[int] = 1

    topic: Short
    partition: Count
    offset: Count
    ts: Millis
    reason: Short
    detail: Text
    reader: Short
    num_bytes: Count
    key: Annotated[bytes, Meta(max_length=1024)] = b""
    value: Annotated[bytes, Meta(max_length=MAX_KEPT_BYTES)] = b""
    v: int = 1
