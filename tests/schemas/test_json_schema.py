"""The printed schemas say of every record what the decoder does."""

from __future__ import annotations

import functools
import json
from typing import Any

import msgspec
import pytest

from holter.schemas import codec
from holter.schemas.bounds import MAX_RECORD_BYTES
from holter.schemas.json_schema import RECORDS, all_schemas, record_schema
from holter.schemas.signed import open_unverified
from tests.schemas import examples


@functools.cache
def validator_of(name: str) -> Any:
    return pytest.importorskip("jsonschema").Draft202012Validator(record_schema(name))


def valid(name: str, document: object) -> bool:
    return bool(validator_of(name).is_valid(document))


def shown(record: msgspec.Struct) -> Any:
    """A record as JSON shows it; NaN, which JSON lacks, as Python's own."""
    return msgspec.to_builtins(record)


def test_every_record_has_a_schema() -> None:
    assert set(RECORDS) == codec.KINDS | {"signed"}
    for name in RECORDS:
        assert json.loads(json.dumps(record_schema(name))) == record_schema(name)


@pytest.mark.parametrize("name", examples.RECORDS)
def test_it_fits_the_examples_and_not_what_the_decoder_refuses(name: str) -> None:
    record = examples.RECORDS[name][1]
    kind = name.partition(".")[0]
    assert valid(kind, shown(record))
    assert not valid(kind, {**shown(record), "record": "nonsense"})
    field = next(each for each in record.__struct_fields__ if each not in ("v", "live"))
    assert not valid(kind, {key: value for key, value in shown(record).items() if key != field})
    assert not valid(kind, {**shown(record), field: [[]]})


def test_the_envelope_too() -> None:
    assert valid("signed", shown(open_unverified(examples.SIGNED.read_bytes())))
    assert not valid("signed", {})


def test_one_schema_fits_exactly_one_kind_each() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(all_schemas())
    for _, record in examples.RECORDS.values():
        assert validator.is_valid(shown(record))
    assert validator.is_valid(shown(open_unverified(examples.SIGNED.read_bytes())))
    assert not validator.is_valid({"record": "metric_batch"})


def test_bytes_are_said_to_be_bytes_with_bounds_in_bytes() -> None:
    definitions = record_schema("metric_batch")["$defs"]
    steps = definitions["MetricBatch"]["properties"]["steps"]
    assert (steps["x-min-bytes"], steps["x-max-bytes"]) == (8, 4096)
    assert "msgpack bin" in steps["description"]
    dense = definitions["MetricBatch"]["properties"]["columns"]["additionalProperties"]["anyOf"][0]
    assert dense["x-max-bytes"] == 4096
    assert definitions["SparseColumn"]["properties"]["at"]["x-max-bytes"] == 1024
    assert record_schema("signed")["$defs"]["Signed"]["properties"]["body"]["x-max-bytes"] == MAX_RECORD_BYTES


def test_no_bytes_are_left_undescribed() -> None:
    text = json.dumps(all_schemas())
    assert text.count('"contentEncoding"') == text.count('"x-max-bytes"') == 10
