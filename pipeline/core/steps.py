"""One step of one rank as the stages see it, and how a batch is cut into them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holter.schemas.telemetry import MetricBatch, unpack_floats, unpack_offsets

_ONE = struct.Struct("<d").unpack
_ONE_INT = struct.Struct("<q").unpack


class StepRecord(NamedTuple):
    """``seq`` is that of the record that carried the step, ``ts`` the trainer's clock in ms.

    ``values`` has the step's metrics; an absent one is missing, a non-finite one is there.
    """

    attempt: int
    rank: int
    step: int
    ts: int
    seq: int
    applied: bool
    live: bool
    values: dict[str, float]


def steps_of(batch: MetricBatch) -> Sequence[StepRecord]:
    """The steps of a batch in order. What is said of a step does not depend on how steps were cut into batches."""
    return (_single(batch),) if len(batch.steps) == 8 else list(_several(batch))


def _several(batch: MetricBatch) -> Iterator[StepRecord]:
    flags = batch.applied
    rows = zip(batch.step_numbers(), batch.timestamps(), _values_by_step(batch), strict=True)
    for index, (step, ts, values) in enumerate(rows):
        applied = not flags or flags[index] != 0
        yield StepRecord(batch.attempt, batch.rank, step, ts, batch.seq, applied, batch.live, values)


def _single(batch: MetricBatch) -> StepRecord:
    values = {
        name: _ONE(column if type(column) is bytes else column.values)[0]  # type: ignore[union-attr]
        for name, column in batch.columns.items()
    }
    applied = not batch.applied or batch.applied[0] != 0
    step, ts = _ONE_INT(batch.steps)[0], _ONE_INT(batch.ts)[0]
    return StepRecord(batch.attempt, batch.rank, step, ts, batch.seq, applied, batch.live, values)


def _values_by_step(batch: MetricBatch) -> list[dict[str, float]]:
    dense = {name: unpack_floats(column) for name, column in batch.columns.items() if isinstance(column, bytes)}
    rows = [dict(zip(dense, row, strict=True)) for row in zip(*dense.values(), strict=True)]
    if not dense:
        rows = [{} for _ in range(batch.num_steps)]
    if len(dense) != len(batch.columns):
        for name, column in batch.columns.items():
            if not isinstance(column, bytes):
                for offset, value in zip(unpack_offsets(column.at), unpack_floats(column.values), strict=True):
                    rows[offset][name] = value
    return rows
