"""JSON Schema of every record, made from the structs that the program itself decodes with.

Records travel as msgpack. A schema describes a record as JSON shows it, names and types alike, but for two things
that JSON has no form for: a field of bytes (msgpack ``bin``) is a base64 string, with its bounds in bytes as
``x-min-bytes`` and ``x-max-bytes``; and a number may be NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
from msgspec import inspect

from holter.schemas.commands import Command, HoldState
from holter.schemas.control import Control
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.decisions import Verdict
from holter.schemas.signals import Signal
from holter.schemas.signed import Signed
from holter.schemas.telemetry import Telemetry
from holter.schemas.windows import WindowStat

DIALECT = "https://json-schema.org/draft/2020-12/schema"
COMMENT = "Travels as msgpack: bytes are bin (shown here as base64), numbers may be NaN or infinite."

_UNIONS = (Telemetry, Verdict, Command, Control, HoldState)
_SINGLE = (WindowStat, Signal, DeadLetter)
_STRUCTS: tuple[type[msgspec.Struct], ...] = (*(kind for union in _UNIONS for kind in get_args(union)), *_SINGLE)

RECORDS: dict[str, type[msgspec.Struct]] = {
    **{str(kind.__struct_config__.tag): kind for kind in _STRUCTS},
    "signed": Signed,
}
"""By the tag that a record carries in its field ``record``; ``signed`` is the envelope, which has none."""


def record_schema(name: str) -> dict[str, Any]:
    """The schema of one record, with the definitions it needs.

    Raises:
        KeyError: there is no such record.

    >>> record_schema("health")["$defs"]["Health"]["properties"]["step"]
    {'type': 'integer', 'minimum': 0, 'maximum': 9007199254740992}
    """
    (reference,), definitions = _components(RECORDS[name])
    return {"$schema": DIALECT, "$comment": COMMENT, **reference, "$defs": definitions}


def all_schemas() -> dict[str, Any]:
    """One schema that fits every record of every topic, and the envelope of the signed ones."""
    references, definitions = _components(*RECORDS.values())
    return {"$schema": DIALECT, "$comment": COMMENT, "oneOf": list(references), "$defs": definitions}


def _components(*kinds: type[msgspec.Struct]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    references, definitions = msgspec.json.schema_components(kinds)
    for struct in _structs(inspect.multi_type_info(kinds)):
        properties = definitions[struct.cls.__name__]["properties"]
        for field in struct.fields:
            _describe_bytes(properties[field.encode_name], field.type)
    return tuple(references), definitions


def _structs(found: tuple[inspect.Type, ...]) -> Iterator[inspect.StructType]:
    waiting, seen = list(found), set()
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, inspect.StructType):
            if kind.cls in seen:
                continue
            seen.add(kind.cls)
            yield kind
        waiting.extend(_parts(kind))


def _parts(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The types that a type is made of."""
    if isinstance(kind, inspect.Metadata):
        yield kind.type
    elif isinstance(kind, inspect.StructType):
        yield from (field.type for field in kind.fields)
    elif isinstance(kind, inspect.UnionType):
        yield from kind.types
    elif isinstance(kind, inspect.DictType):
        yield from (kind.key_type, kind.value_type)
    elif isinstance(kind, inspect.CollectionType):
        yield kind.item_type


def _describe_bytes(schema: dict[str, Any], kind: inspect.Type) -> None:
    """Says of a property of bytes how many there may be; in a union or dict at most one part is bytes."""
    bounds = next(_bytes_in(kind), None)
    node = next(_base64_in(schema), None)
    if bounds is None or node is None:
        return
    node["description"] = "msgpack bin; base64 in JSON"
    node["x-min-bytes"] = bounds.min_length or 0
    node["x-max-bytes"] = bounds.max_length


def _bytes_in(kind: inspect.Type) -> Iterator[inspect.BytesType]:
    if isinstance(kind, inspect.BytesType):
        yield kind
    elif not isinstance(kind, inspect.StructType):
        for part in _parts(kind):
            yield from _bytes_in(part)


def _base64_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if schema.get("contentEncoding") == "base64":
        yield schema
    for key in ("additionalProperties", "items"):
        if isinstance(schema.get(key), dict):
            yield from _base64_in(schema[key])
    for part in schema.get("anyOf", ()):
        yield from _base64_in(part)
