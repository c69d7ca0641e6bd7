"""Scalars of a TensorBoard event file.

The file is a TFRecord of ``Event`` messages (tensorflow/core/util/event.proto, summary.proto, tensor.proto). Of
these a scalar needs six fields, so they are read here: the libraries that do (tensorboard, tbparse) bring a web
server, gRPC and pandas with them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4
_MASK_DELTA = 0xA282EAD8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EVENT_STEP, _EVENT_SUMMARY, _SUMMARY_VALUE = 2, 5, 1
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = 1, 2, 8
_TENSOR_TYPE, _TENSOR_CONTENT, _TENSOR_FLOATS, _TENSOR_DOUBLES = 1, 4, 5, 6
_DT_FLOAT, _DT_DOUBLE = 1, 2

Field = tuple[int, int | bytes]


class Scalar(NamedTuple):
    step: int
    tag: str
    value: float


def fits(file: LogFile, names: ColumnNames) -> int:
    head = file.head
    return int(len(head) >= _HEADER.size and _has_valid_length(head, 0))


def read(file: LogFile, names: ColumnNames) -> Table:
    content = file.content()
    if not (len(content) >= _HEADER.size and _has_valid_length(content, 0)):
        raise UnreadableLog("it is no TensorBoard event file")
    table = Table()
    rows: dict[tuple[int, int], dict[str, float | None]] = {}
    line_of: dict[str, tuple[int, int]] = {}
    for scalar in _scalars(content, file, table):
        table.seen.add(scalar.tag)
        if names.role(scalar.tag) is not None:
            run, last = line_of.get(scalar.tag, (0, -1))
            run += scalar.step < last
            line_of[scalar.tag] = (run, scalar.step)
            rows.setdefault((run, scalar.step), {})[scalar.tag] = scalar.value
    for (_, step), values in sorted(rows.items(), key=lambda item: item[0]):
        table.add({"step": float(step), **values})
    return table.finish()


def _scalars(content: bytes, file: LogFile, table: Table) -> Iterator[Scalar]:
    for record in _records(content, file):
        try:
            yield from _scalars_of(record)
        except (ValueError, IndexError, struct.error):
            table.set_aside["a damaged event"] += 1


def _records(content: bytes, file: LogFile) -> Iterator[bytes]:
    """The payloads. A writer that was killed leaves a part of one; what follows damage cannot be found."""
    at, size = 0, len(content)
    while at < size:
        if size - at < _HEADER.size or not _has_valid_length(content, at):
            file.note("it is cut short or damaged: the events before were used")
            return
        length, _ = _HEADER.unpack_from(content, at)
        start = at + _HEADER.size
        at = start + length + _FOOTER_BYTES
        if at > size:
            file.note("it is cut short or damaged: the events before were used")
            return
        yield content[start : start + length]


def _has_valid_length(content: bytes, at: int) -> bool:
    _, stored = _HEADER.unpack_from(content, at)
    crc = crc32c(content[at : at + 8])
    return bool(stored == (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF)


def _scalars_of(event: bytes) -> Iterator[Scalar]:
    step, summaries = 0, []
    for number, value in _fields(event):
        if number == _EVENT_STEP and isinstance(value, int):
            step = value
        elif number == _EVENT_SUMMARY and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == _SUMMARY_VALUE and isinstance(value, bytes) and (found := _tag_and_value(value)):
                yield Scalar(step, *found)


def _tag_and_value(message: bytes) -> tuple[str, float] | None:
    tag, scalar = "", None
    for number, value in _fields(message):
        if number == _VALUE_TAG and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif number == _VALUE_SIMPLE and isinstance(value, bytes):
            scalar = struct.unpack("<f", value)[0]
        elif number == _VALUE_TENSOR and isinstance(value, bytes):
            scalar = _scalar_of_tensor(value)
    return (tag, scalar) if tag and scalar is not None else None


def _scalar_of_tensor(message: bytes) -> float | None:
    """The value of a tensor of one float or double."""
    kind, content = 0, b""
    for number, value in _fields(message):
        if number == _TENSOR_TYPE and isinstance(value, int):
            kind = value
        elif number in (_TENSOR_CONTENT, _TENSOR_FLOATS, _TENSOR_DOUBLES) and isinstance(value, bytes):
            content = value
    if kind == _DT_FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    if kind == _DT_DOUBLE and len(content) == 8:
        return float(struct.unpack("<d", content)[0])
    return None


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a protobuf message: integers of varints, bytes of all others.

    Raises:
        ValueError, IndexError: it is damaged.
    """
    at, size = 0, len(message)
    while at < size:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        length = 8 if kind == _FIXED64 else 4
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind not in (_FIXED64, _FIXED32):
            raise ValueError(f"wire type {kind}")
        if at + length > size:
            raise ValueError("a field is longer than its message")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("an endless varint")


TENSORBOARD = Format("tensorboard", "TensorBoard event files", fits, read)
