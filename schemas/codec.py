"""Bytes to records and back. Whatever the bytes, the only exception is :class:`InvalidRecord`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from holter.schemas.bounds import MAX_RECORD_BYTES
from holter.schemas.commands import Command, HoldState
from holter.schemas.control import Control
from holter.schemas.dead_letter import MAX_KEPT_BYTES, DeadLetter
from holter.schemas.decisions import Verdict
from holter.schemas.errors import InvalidRecord
from holter.schemas.signals import Signal
from holter.schemas.telemetry import MetricBatch, Telemetry
from holter.schemas.windows import WindowStat

RecordT = TypeVar("RecordT")

_ENCODER = msgspec.msgpack.Encoder()


def encode(record: msgspec.Struct) -> bytes:
    return _ENCODER.encode(record)


class _Header(msgspec.Struct):
    record: str
    v: Any = 1


class Decoder(Generic[RecordT]):
    """Decodes one topic's records.

    Unknown fields are ignored; unknown kinds and versions, wrong types, values out of bounds, records that
    contradict themselves and records over the size limit are refused with :class:`InvalidRecord`.
    """

    def __init__(self, union: Any, max_bytes: int = MAX_RECORD_BYTES) -> None:
        self._decode = msgspec.msgpack.Decoder(union).decode
        self._max_bytes = max_bytes

    def decode(self, raw: bytes) -> RecordT:
        if len(raw) > self._max_bytes:
            raise InvalidRecord("oversized", f"{len(raw)} bytes, the limit is {self._max_bytes}")
        try:
            record: Any = self._decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(raw, error) from None
        if record.v != record.VERSION:
            raise InvalidRecord("unknown_version", f"version {record.v} of {type(record).__name__}")
        if type(record) is MetricBatch:
            record.check()
        return record  # type: ignore[no-any-return]


def _refusal(raw: bytes, error: Exception) -> InvalidRecord:
    """The reason behind a decoder's error: a version that is not read here explains every other complaint."""
    detail = str(error)[:500]
    if not isinstance(error, msgspec.ValidationError):
        return InvalidRecord("malformed", detail)
    try:
        header = msgspec.msgpack.decode(raw, type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return InvalidRecord("wrong_type", detail)
    if header.v != 1:
        return InvalidRecord("unknown_version", f"version {header.v!r} of {header.record[:100]!r}")
    if header.record not in KINDS:
        return InvalidRecord("unknown_kind", f"{header.record[:100]!r}")
    return InvalidRecord("wrong_type", detail)


KINDS = frozenset(
    {
        "metric_batch", "run_event", "ack", "window_stat", "signal", "decision", "outcome", "approve", "reject", "act",
        "policy", "action", "health", "hold", "release", "dead_letter",
    }
)  # fmt: skip

telemetry: Decoder[Telemetry] = Decoder(Telemetry)
windows: Decoder[WindowStat] = Decoder(WindowStat)
signals: Decoder[Signal] = Decoder(Signal)
decisions: Decoder[Verdict] = Decoder(Verdict)
commands: Decoder[Command] = Decoder(Command)
control: Decoder[Control] = Decoder(Control)
holds: Decoder[HoldState] = Decoder(HoldState)
dead_letters: Decoder[DeadLetter] = Decoder(DeadLetter, max_bytes=MAX_KEPT_BYTES + 8192)
