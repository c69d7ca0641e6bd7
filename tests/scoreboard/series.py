"""Columns of numbers as the records that the stages take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from holter.pipeline.core.steps import StepRecord

Array = npt.NDArray[np.float64]

STEP_MS = 50


def autoregressive(innovations: Array, correlation: float) -> Array:
    """AR(1): each value is ``correlation`` times the one before it, plus its innovation.

    >>> autoregressive(np.array([1.0, 0.0, 3.0]), 0.5).tolist()
    [1.0, 0.5, 3.25]
    """
    return np.array(list(accumulate(innovations.tolist(), lambda before, new: new + correlation * before)))


def records_of(
    columns: Mapping[str, Sequence[float] | Array], every: int = 1, steps: Sequence[int] | None = None
) -> list[StepRecord]:
    """A record a row, ``every`` steps apart unless ``steps`` says otherwise; ``None`` in a column is a missing value.

    >>> [(record.step, record.values) for record in records_of({"train/loss": [2.0, 1.5]}, every=10)]
    [(0, {'train/loss': 2.0}), (10, {'train/loss': 1.5})]
    """
    lists = {name: _plain(column) for name, column in columns.items()}
    rows = zip(*lists.values(), strict=True)
    return [
        record(
            row,
            steps[row] if steps else row * every,
            {n: v for n, v in zip(lists, cells, strict=True) if v is not None},
        )
        for row, cells in enumerate(rows)
    ]


def record(row: int, step: int, values: dict[str, float]) -> StepRecord:
    return StepRecord(attempt=0, rank=0, step=step, ts=step * STEP_MS, seq=row, applied=True, live=False, values=values)


def _plain(column: Sequence[float] | Array) -> list[float]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
