"""MLPerf: lines ``:::MLLOG {json}`` whose ``tracked_stats`` hold the training loss.

Language-model benchmarks log their validation loss as ``eval_accuracy``; what exceeds 1 is no accuracy.
"""

from __future__ import annotations

import json
from typing import Any

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table, number_of

_MARK = ":::MLLOG"
_STEPS = ("step", "step_num", "samples_count", "first_epoch_num", "epoch_num")


def fits(file: LogFile, names: ColumnNames) -> int:
    return file.head_text.count(_MARK)


def read(file: LogFile, names: ColumnNames) -> Table:
    table = Table()
    for line in file.lines():
        _, mark, body = line.partition(_MARK)
        if mark and (values := _values(body, names, table)):
            table.add(values)
    return table.finish()


def _values(body: str, names: ColumnNames, table: Table) -> dict[str, float | None]:
    try:
        entry: Any = json.loads(body)
    except (ValueError, RecursionError):
        table.set_aside["a line that is no JSON"] += 1
        return {}
    if not isinstance(entry, dict) or not isinstance(entry.get("metadata"), dict):
        return {}
    wanted = names.wanted(_tracked(entry.get("key"), entry.get("value")))
    steps = (number_of(entry["metadata"].get(name)) for name in _STEPS)
    step = next((value for value in steps if value is not None), None)
    return {"step": step, **wanted} if wanted else {}


def _tracked(key: object, value: object) -> dict[str, object]:
    if isinstance(value, dict):
        return value if key == "tracked_stats" else {}
    if key == "eval_accuracy":
        loss = number_of(value)
        return {"val_loss": loss} if loss is not None and not loss <= 1.0 else {}
    return {str(key): value}


MLLOG = Format("mllog", "MLPerf result logs", fits, read)
