"""Bytes of every version stay readable; whatever the bytes, there is one kind of refusal."""

from __future__ import annotations

import contextlib
import math
import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.schemas import InvalidRecord, codec, encode
from holter.schemas.bounds import MAX_RECORD_BYTES
from holter.schemas.telemetry import LOSS, MetricBatch, SparseColumn, pack_floats, pack_ints, pack_offsets
from holter.schemas.topics import TELEMETRY
from tests.schemas import examples

NAMES = sorted(examples.RECORDS)


def equal(left: object, right: object) -> bool:
    """NaN equals itself here."""
    return encode(left) == encode(right)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_released_bytes_decode_to_the_record(name: str) -> None:
    topic, record = examples.RECORDS[name]
    assert equal(topic.decoder.decode(examples.path(name).read_bytes()), record)


def test_every_example_file_is_tested_and_every_kind_has_one() -> None:
    files = set(examples.FOLDER.rglob("*.msgpack")) - {examples.SIGNED}
    assert files == {examples.path(name) for name in NAMES}
    assert {name.partition(".")[0] for name in NAMES} == codec.KINDS


@pytest.mark.parametrize("name", NAMES)
def test_unknown_fields_are_ignored(name: str) -> None:
    topic, record = examples.RECORDS[name]
    fields = msgspec.msgpack.decode(encode(record))
    assert equal(topic.decoder.decode(msgspec.msgpack.encode({**fields, "later": [1, 2]})), record)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_version_is_refused_by_name_even_where_its_types_changed(name: str) -> None:
    topic, record = examples.RECORDS[name]
    fields = {**msgspec.msgpack.decode(encode(record)), "v": 2}
    assert _refusal(topic.decoder, msgspec.msgpack.encode(fields)) == "unknown_version"
    assert _refusal(topic.decoder, msgspec.msgpack.encode({**fields, "project": 7})) == "unknown_version"


def test_a_kind_of_another_topic_is_unknown_or_refused() -> None:
    assert _refusal(codec.windows, msgspec.msgpack.encode({"record": "from_the_future", "v": 1})) in (
        "unknown_kind",
        "wrong_type",
    )
    assert _refusal(codec.telemetry, msgspec.msgpack.encode({"record": "from_the_future", "v": 1})) == "unknown_kind"


def test_size_is_bounded_before_anything_is_decoded() -> None:
    assert _refusal(codec.telemetry, b"\xc1" * (MAX_RECORD_BYTES + 1)) == "oversized"


BATCH = MetricBatch("p", "r", 1, 0, "s", 0, pack_ints(1, 2, 3), pack_ints(1, 1, 1), {LOSS: pack_floats(1.0, 2.0, 3.0)})


@pytest.mark.parametrize(
    "change",
    [
        {"steps": pack_ints(1, 3, 2)},
        {"steps": pack_ints(-3, -2, -1)},
        {"steps": pack_ints(1, 2)},
        {"steps": b"12345678901"},
        {"ts": pack_ints(1, -1, 1)},
        {"columns": {LOSS: pack_floats(1.0)}},
        {"columns": {LOSS: b"123456789"}},
        {"columns": {LOSS: SparseColumn(pack_offsets(0, 3), pack_floats(1.0, 2.0))}},
        {"columns": {LOSS: SparseColumn(pack_offsets(1, 1), pack_floats(1.0, 2.0))}},
        {"columns": {LOSS: SparseColumn(b"123", pack_floats(1.0))}},
        {"applied": b"\x01"},
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    raw = encode(msgspec.structs.replace(BATCH, **change))
    assert _refusal(codec.telemetry, raw) == "inconsistent"


@pytest.mark.parametrize("change", [{"project": ""}, {"run": "x" * 101}, {"rank": -2}, {"attempt": -1}, {"seq": 2**60}])
def test_values_out_of_bounds_are_refused(change: dict[str, object]) -> None:
    assert _refusal(codec.telemetry, encode(msgspec.structs.replace(BATCH, **change))) == "wrong_type"


def test_nan_and_infinities_survive() -> None:
    values = (math.nan, math.inf, -math.inf, -0.0, 5e-324)
    steps = pack_ints(*range(5))
    batch = msgspec.structs.replace(BATCH, steps=steps, ts=steps, columns={LOSS: pack_floats(*values)})
    column = codec.telemetry.decode(encode(batch)).column(LOSS)  # type: ignore[union-attr]
    assert struct.pack("<5d", *column.values()) == pack_floats(*values)


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_mutated_bytes_give_a_record_or_one_refusal(name: str, data: st.DataObject) -> None:
    topic, record = examples.RECORDS[name]
    raw = bytearray(encode(record))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "insert"]))
        if kind == "set":
            raw[position] = data.draw(st.integers(0, 255))
        elif kind == "cut" and position:
            del raw[position:]
        else:
            raw[position:position] = data.draw(st.binary(min_size=1, max_size=9))
    with contextlib.suppress(InvalidRecord):
        topic.decoder.decode(bytes(raw))


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes_give_one_refusal(raw: bytes) -> None:
    with pytest.raises(InvalidRecord):
        TELEMETRY.decoder.decode(raw)


def test_a_deeply_nested_record_is_refused() -> None:
    assert _refusal(codec.telemetry, b"\x91" * 100_000 + b"\x90") in ("malformed", "wrong_type")


def _refusal(decoder: codec.Decoder[object], raw: bytes) -> str:
    with pytest.raises(InvalidRecord) as caught:
        decoder.decode(raw)
    return caught.value.reason
