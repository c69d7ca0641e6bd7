"""The ``log.txt`` of build-nanogpt: ``10 train 6.98``, ``250 val 6.26``, ``250 hella 0.24``."""

from __future__ import annotations

import re

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.line_format import NUMBER, line_format, number

_LINE = re.compile(rf"(\d+) (train|val) ({NUMBER})\s*$")
_NAMES = {"train": "loss", "val": "val_loss"}


def parse(line: str, names: ColumnNames) -> dict[str, float | None]:
    """
    >>> parse("250 val 6.2648", ColumnNames())
    {'step': 250.0, 'val_loss': 6.2648}
    """
    found = _LINE.match(line)
    return {"step": float(found[1]), _NAMES[found[2]]: number(found[3])} if found else {}


BUILD_NANOGPT = line_format("build-nanogpt", "log.txt of build-nanogpt", parse)
