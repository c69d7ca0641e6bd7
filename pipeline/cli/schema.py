"""``holter schema``: what records look like, for programs that are not written in Python."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from holter.schemas.json_schema import RECORDS, all_schemas, record_schema


def known_record(name: str | None) -> str | None:
    """Refuses a record that does not exist."""
    if name is not None and name not in RECORDS:
        raise typer.BadParameter(f"there is no record {name!r}; there are {', '.join(sorted(RECORDS))}")
    return name


def schema(
    record: Annotated[
        str | None, typer.Argument(callback=known_record, help="By the tag in its field `record`; default: all.")
    ] = None,
) -> None:
    """Print the JSON Schema of a record, or of all, as this version reads and writes them.

    Example: holter schema metric_batch
    """
    print(json.dumps(all_schemas() if record is None else record_schema(record), indent=2))
