"""A level that jumps to four times the median for twelve records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holter.pipeline.core.steps import StepRecord
from tests.scoreboard.series import record

TIMES = 4.0
NUM_RECORDS = 12
WARM_UP_RECORDS = 400


def places(random: np.random.Generator, num_records: int, num_jumps: int) -> list[int]:
    """First records of jumps, sorted, none in the warm-up."""
    return sorted(int(row) for row in random.integers(WARM_UP_RECORDS, num_records - NUM_RECORDS, num_jumps))


def jumped(records: Sequence[StepRecord], row: int, metric: str, multiplicative: bool) -> list[StepRecord]:
    """The twelve records from ``row`` on with the metric raised: multiplied, or by what lifts the median so far."""
    median = float(np.median([records[at].values[metric] for at in range(max(0, row - 128), row)]))
    raised = []
    for old in records[row : row + NUM_RECORDS]:
        value = old.values[metric]
        value = value * TIMES if multiplicative else value + (TIMES - 1.0) * median
        raised.append(record(old.seq, old.step, {**old.values, metric: value}))
    return raised
