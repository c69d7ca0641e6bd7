"""Made-up runs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.telemetry import START_MS, STEP_MS

Row = dict[str, float]


def calm(num_rows: int, seed: int = 3) -> list[Row]:
    noise = random.Random(seed)
    return [
        {LOSS: 2.0 + 3.0 / (1 + step / 20) + noise.gauss(0, 0.02), GRAD_NORM: 1.0 + noise.gauss(0, 0.05)}
        for step in range(num_rows)
    ]


def spiking(num_rows: int = 600, at: int = 400) -> list[Row]:
    """A spike that heals within thirty steps."""
    rows = calm(num_rows)
    for step in range(at, at + 30):
        height = 4.0 * math.exp(-(step - at) / 8)
        rows[step] = {LOSS: rows[step][LOSS] + height, GRAD_NORM: rows[step][GRAD_NORM] * (1 + 3 * height)}
    return rows


def falling(num_rows: int = 700, at: int = 400) -> list[Row]:
    """To another level, where it stays."""
    rows = calm(num_rows)
    return rows[:at] + [{**row, LOSS: row[LOSS] - 0.5} for row in rows[at:]]


def dying(num_rows: int = 420, at: int = 300) -> list[Row]:
    """Not finite from some step on."""
    rows = calm(num_rows)
    return rows[:at] + [{LOSS: math.nan, GRAD_NORM: math.nan}] * (num_rows - at)


def records(rows: Sequence[Row], first_step: int = 0, attempt: int = 1) -> list[StepRecord]:
    """As a trainer would send them, one a batch."""
    return [
        StepRecord(attempt, -1, step, START_MS + STEP_MS * step, seq, True, True, row)
        for seq, (step, row) in enumerate(enumerate(rows, first_step))
    ]


def csv_of(rows: Sequence[Row]) -> str:
    lines = [f"{step},{row[LOSS]!r},{row[GRAD_NORM]!r}\n" for step, row in enumerate(rows)]
    return "step,loss,grad_norm\n" + "".join(lines)
