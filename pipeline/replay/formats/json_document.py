"""One JSON document of metrics: a list of objects, columns as lists, or values by step.

Looked for at the top and up to three levels below it: ``[{"step": 1, "loss": 2.0}, …]``, ``{"losses": [2.0, …]}``,
``{"lm loss": {"values": {"1": 2.0, …}}}``, ``{"loss": [[1, 2.0], …]}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.formats.json_lines import add_object
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table, number_of

_MAX_DEPTH = 3
_BEGINNING = re.compile(r'\s*(?:\{\s*"|\[\s*\{)')
Series = dict[int, float | None]


def fits(file: LogFile, names: ColumnNames) -> int:
    return int(_BEGINNING.match(file.head_text) is not None)


def read(file: LogFile, names: ColumnNames) -> Table:
    text = file.text()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableLog("it is no JSON document, or one that is cut short") from None
    table = Table()
    for part in _parts(document, 0):
        if _fill(table, part, names):
            break
    return table.finish()


def _parts(value: Any, depth: int) -> Iterator[list[Any] | dict[str, Any]]:
    """The containers in it, outer ones first."""
    if not isinstance(value, list | dict):
        return
    yield value
    if depth < _MAX_DEPTH and isinstance(value, dict):
        for inner in value.values():
            yield from _parts(inner, depth + 1)


def _fill(table: Table, part: list[Any] | dict[str, Any], names: ColumnNames) -> bool:
    """Whether the part held rows of use."""
    if isinstance(part, list):
        for entry in part:
            if isinstance(entry, dict):
                add_object(table, entry, names)
        return table.num_rows > 0
    table.seen.update(part)
    by_name = {name: _series(value) for name, value in part.items() if names.role(name)}
    _add_series(table, {name: series for name, series in by_name.items() if series}, names)
    return table.num_rows > 0


def _add_series(table: Table, by_name: Mapping[str, Series], names: ColumnNames) -> None:
    """Puts series side by side; a list shorter than the longest one was logged at steps that nobody knows."""
    longest = max(map(len, by_name.values()), default=0)
    kept = {name: series for name, series in by_name.items() if 2 * len(series) > longest}
    if not names.wanted(dict.fromkeys(kept, 0.0)):
        return
    has_steps = any(names.role(name) == "step" for name in kept)
    for step in sorted(set().union(*kept.values())):
        row = {name: series.get(step) for name, series in kept.items()}
        table.add(row if has_steps else {"step": float(step), **row})


def _series(value: Any) -> Series:
    """Values by step: an object of them, a list of pairs, or a list, which is counted from 0."""
    if isinstance(value, dict):
        inner = value.get("values", value)
        return _by_step(inner) if isinstance(inner, dict) else _series(inner) if inner is not value else {}
    if not isinstance(value, list):
        return {}
    if all(isinstance(item, list) and len(item) == 2 for item in value):
        return _by_step({item[0]: item[1] for item in value if isinstance(item[0], int | float | str)})
    return {step: number_of(item) for step, item in enumerate(value)} if _is_numeric(value) else {}


def _by_step(values: Mapping[Any, Any]) -> Series:
    series: Series = {}
    for key, value in values.items():
        step = number_of(key)
        if step is None or step % 1.0 != 0.0:
            return {}
        series[int(step)] = number_of(value)
    return series


def _is_numeric(values: list[Any]) -> bool:
    return any(number_of(value) is not None for value in values[:100])


JSON_DOCUMENT = Format("json", "one JSON document of metrics (lists, or values by step)", fits, read)
