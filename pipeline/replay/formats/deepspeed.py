"""DeepSpeed's own lines, and those of DeepSpeed-Chat.

``step=10, skipped=6, lr=[9.6e-06], …`` counts otherwise than the script's own lines, so it is read only where those
are absent. An overflow names the loss scale; it belongs to the next row. A perplexity is that of a validation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.formats.key_value import parse as parse_pairs
from holter.pipeline.replay.formats.line_format import NUMBER, number
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table
from holter.schemas.telemetry import LOSS

_ENGINE = re.compile(rf"\bstep=(\d+), skipped=\d+, lr=\[({NUMBER})")
_OVERFLOW = re.compile(r"OVERFLOW!.*?loss scale: (\d+)(?:\.0)?(?:, reducing to (\d+))?")
_PERPLEXITY = re.compile(rf"ppl: ({NUMBER})\s*$")

Source = Literal["overflow", "engine", "script"]
Values = dict[str, float | None]


def fits(file: LogFile, names: ColumnNames) -> int:
    lines = file.head_text.splitlines()
    num_own = sum(bool(_ENGINE.search(line) or _OVERFLOW.search(line)) for line in lines)
    return num_own and num_own + sum(bool(_script_values(line, names)) for line in lines)


def read(file: LogFile, names: ColumnNames) -> Table:
    entries = list(_entries(file.lines(), names))
    has_loss = any(names.role(name) == LOSS for _, values in entries for name in values)
    table = Table()
    scale: Values = {}
    for source, values in entries:
        if source == "overflow":
            scale = values
        elif source == "script" or not has_loss:
            table.add({**values, **scale})
            scale = {}
    return table.finish()


def _entries(lines: Iterable[str], names: ColumnNames) -> Iterator[tuple[Source, Values]]:
    for line in lines:
        if found := _OVERFLOW.search(line):
            yield "overflow", {"loss_scale": float(found[2] or found[1])}
        elif found := _ENGINE.search(line):
            yield "engine", {"step": float(found[1]), "lr": number(found[2])}
        elif values := _script_values(line, names):
            yield "script", values


def _script_values(line: str, names: ColumnNames) -> Values:
    if found := _PERPLEXITY.match(line):
        perplexity = number(found[1])
        return {"val_loss": math.log(perplexity) if perplexity > 0.0 else math.nan}
    return parse_pairs(line, names) if "loss" in line else {}


DEEPSPEED = Format("deepspeed", "DeepSpeed and DeepSpeed-Chat", fits, read)
