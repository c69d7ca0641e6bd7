"""What the Hugging Face Trainer prints: ``{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.01}``.

It names no steps.
"""

from __future__ import annotations

import re

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.line_format import NUMBER, line_format, number

_PAIR = re.compile(rf"'([\w/.-]+)': '?({NUMBER})'?")


def parse(line: str, names: ColumnNames) -> dict[str, float | None]:
    """
    >>> parse(" 1%| | 10/900 [00:31<46:40]{'loss': 2.31, 'grad_norm': nan, 'epoch': 0.01}", ColumnNames())
    {'loss': 2.31, 'grad_norm': nan}
    """
    start = line.find("{'")
    if start < 0:
        return {}
    return names.wanted({name: number(text) for name, text in _PAIR.findall(line, start)})


TRAINER_CONSOLE = line_format("trainer-console", "what the Hugging Face Trainer prints", parse)
