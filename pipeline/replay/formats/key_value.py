"""Lines that name a step and values: ``step:10/1530 train_loss:3.2``, ``step 10 | loss: 3.2 | norm: 0.4``.

So print modded-nanogpt, nanoGPT, build-nanogpt, nanochat, llm.c's console, torchtitan and many scripts.
"""

from __future__ import annotations

import re

from holter.pipeline.replay.columns import STEP, ColumnNames, normalized
from holter.pipeline.replay.formats.line_format import NUMBER, line_format, number

_WORDS = r"(?:train|training|val|valid|validation|eval|grad|gradient|global|total|update|lm|learning|loss)"
_PAIR = re.compile(rf"(?<![\w-])((?:\b{_WORDS}[ -])*[A-Za-z_][\w/.(]*)(?:\s*[:=]\s*|\s+)({NUMBER})", re.IGNORECASE)
_EVALUATION = re.compile(rf"\s*(?:val|valid|validation|eval)[ _]loss\s*[:=]?\s*({NUMBER})", re.IGNORECASE)


def parse(line: str, names: ColumnNames) -> dict[str, float | None]:
    """
    >>> parse("step 00200/00465 (43.01%) | loss: 4.31 | lr(adamw:7.6e-02) | tok/sec: 881,904", ColumnNames())
    {'step': 200.0, 'loss': 4.31, 'lr_adamw': 0.076}
    >>> parse("iter 10: loss 3.2021, time 45.2ms", ColumnNames())
    {'step': 10.0, 'loss': 3.2021}
    >>> parse("validation loss: 3.28", ColumnNames())
    {'val_loss': 3.28}
    """
    values: dict[str, float | None] = {}
    for name, text in _PAIR.findall(line):
        role = names.role(name)
        if role is not None:
            values.setdefault(names.step_name if role == STEP else normalized(name), number(text))
    if names.step_name in values and len(values) > 1:
        return values
    evaluation = _EVALUATION.match(line)
    return {"val_loss": number(evaluation[1])} if evaluation else {}


KEY_VALUE = line_format("key-value", "text lines of a step and named values (nanoGPT, nanochat, torchtitan …)", parse)
