"""Columns of numbers as the records that the stages take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    names = tuple(lists)
    rows: Iterable[dict[str, float]] = (dict(zip(names, cells)) for cells in zip(*lists.values(), strict=True))  # noqa: B905
    if any(None in column for column in lists.values()):
        rows = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return [record(row, steps[row] if steps else row * every, values) for row, values in enumerate(rows)]


def record(row: int, step: int, values: dict[str, float]) -> StepRecord:
    return StepRecord(0, 0, step, step * STEP_MS, row, True, False, values)


def _plain(column: Sequence[float] | Array) -> list[float]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
