"""JSON lines, an object a row: of LLaMA-Factory, wandb's history, fairseq, and whoever logs so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table

_TRIED_LINES = 20


def fits(file: LogFile, names: ColumnNames) -> int:
    """Most of the first lines are objects; a single one is a row only where it holds no lists."""
    lines = [line for line in file.head_text.splitlines() if line.strip()][:_TRIED_LINES]
    objects = [entry for line in lines if (entry := _object(line)) is not None]
    if 2 * len(objects) <= len(lines) or (len(lines) == 1 and _holds_lists(objects[0])):
        return 0
    return len(objects)


def read(file: LogFile, names: ColumnNames) -> Table:
    table = Table()
    num_bad, is_last_bad = 0, False
    for line in file.lines():
        if not line.strip():
            continue
        entry = _object(line)
        is_last_bad = entry is None
        if entry is None:
            num_bad += 1
        else:
            add_object(table, entry, names)
    if is_last_bad:
        file.note("its last line is cut short: all others were used")
    if num_bad > is_last_bad:
        table.set_aside["a line that is no JSON object"] += num_bad - is_last_bad
    return table.finish()


def add_object(table: Table, entry: Mapping[str, Any], names: ColumnNames) -> None:
    """Appends what is of use of an object, if anything is."""
    values = flat(entry)
    table.seen.update(values)
    if wanted := names.wanted(values):
        table.add(wanted)


def flat(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Objects in objects become names with a slash.

    >>> flat({"step": 1, "train": {"loss": 2.0}})
    {'step': 1, 'train/loss': 2.0}
    """
    if dict not in map(type, entry.values()):
        return entry
    return dict(_pairs(entry, "", 0))


def _pairs(entry: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in entry.items():
        if isinstance(value, dict) and depth < 3:
            yield from _pairs(value, f"{prefix}{name}/", depth + 1)
        else:
            yield f"{prefix}{name}", value


def _object(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _holds_lists(entry: Mapping[str, Any]) -> bool:
    return any(isinstance(value, list) for value in flat(entry).values())


JSON_LINES = Format("jsonl", "JSON lines (LLaMA-Factory, wandb history …)", fits, read)
