"""The ``main.log`` of llm.c: ``s:10 trl:9.93 lr:0.000009 norm:3.85``, ``s:250 tel:6.17`` at an evaluation."""

from __future__ import annotations

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.line_format import line_format

_NAMES = {"s": "step", "trl": "loss", "tel": "val_loss", "lr": "lr", "norm": "norm"}


def parse(line: str, names: ColumnNames) -> dict[str, float | None]:
    """
    >>> parse("s:10 trl:9.93 lr:0.000009 norm:3.85", ColumnNames())
    {'step': 10.0, 'loss': 9.93, 'lr': 9e-06, 'norm': 3.85}
    """
    if not line.startswith("s:"):
        return {}
    values: dict[str, float | None] = {}
    for pair in line.split():
        key, _, text = pair.partition(":")
        if key in _NAMES:
            try:
                values[_NAMES[key]] = float(text)
            except ValueError:
                return {}
    return values if "loss" in values or "val_loss" in values else {}


LLMC = line_format("llm.c", "main.log of llm.c", parse)
