"""Megatron-LM and Megatron-DeepSpeed: ``iteration 200/ 148693 | … | lm loss: 9.2E+00 | grad norm: 1.034 | …``."""

from __future__ import annotations

import re

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.line_format import NUMBER, line_format, number

_ITERATION = re.compile(r"iteration\s+(\d+)\s*/\s*\d+\s*\|")
_EVALUATION = re.compile(rf"valid(?:ation)? loss at iteration (\d+) .*?lm loss value: ({NUMBER})")
_PAIR = re.compile(rf"([A-Za-z][^|:]*):\s*({NUMBER})\s*\|")


def parse(line: str, names: ColumnNames) -> dict[str, float | None]:
    """
    >>> parse(" iteration   200/ 1000 | learning rate: 4E-05 | lm loss: 9.2E+00 | grad norm: 1.034 |", ColumnNames())
    {'step': 200.0, 'learning rate': 4e-05, 'lm loss': 9.2, 'grad norm': 1.034}
    """
    if "iteration" not in line:
        return {}
    if found := _ITERATION.search(line):
        pairs = {name.strip(): number(text) for name, text in _PAIR.findall(line, found.end())}
        wanted = names.wanted(pairs)
        return {"step": float(found[1]), **wanted} if wanted else {}
    if found := _EVALUATION.search(line):
        return {"step": float(found[1]), "val_loss": number(found[2])}
    return {}


MEGATRON = line_format("megatron", "Megatron-LM and Megatron-DeepSpeed", parse)
