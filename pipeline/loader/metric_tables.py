"""Metric batches as Arrow tables, without a loop over values: their bytes are joined, the rest is index arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holter.pipeline.loader.schemas import LAST_STEPS, METRICS, STEPS, TIME
from holter.schemas.telemetry import (
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    STEP_SECONDS,
    UPDATE_NORM,
    MetricBatch,
    SparseColumn,
)

WIDE_COLUMNS = {
    "loss": LOSS,
    "grad_norm": GRAD_NORM,
    "update_norm": UPDATE_NORM,
    "learning_rate": LEARNING_RATE,
    "step_seconds": STEP_SECONDS,
}
"""The metrics that a step shows in columns of their own."""

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


def metric_tables(records: Sequence[MetricBatch]) -> dict[str, pa.Table]:
    """The rows of ``raw_metrics``, one a value, ``raw_steps``, one a step, and ``raw_last_steps``, one a rank."""
    steps = _Steps.of(records)
    values = _Values.of(records, steps.starts, steps.counts)
    wide = _wide(records, steps, values)
    last = wide.take(pa.array(_last_steps(records, steps), pa.int64())).select(LAST_STEPS.names)
    return {"raw_metrics": _long(steps, values), "raw_steps": wide, "raw_last_steps": last}


class Codes32:
    """Words as small numbers, and the numbers as a dictionary column."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, words: Iterable[str]) -> Codes:
        numbers = self._numbers
        return np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), dtype=np.int32)

    def number(self, word: str) -> int:
        """The number of a word, -1 for one never seen."""
        return self._numbers.get(word, -1)

    def column(self, codes: Codes) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(self._numbers), pa.string()))


@dataclass(frozen=True)
class _Steps:
    """One entry a step of all records; ``starts`` and ``counts`` are the entries of each record."""

    starts: Ints
    counts: Ints
    step: Ints
    ts: Ints
    attempt: Ints
    rank: Codes
    seq: Ints
    names: dict[str, tuple[Codes32, Codes]]

    @classmethod
    def of(cls, records: Sequence[MetricBatch]) -> _Steps:
        counts = np.fromiter((len(record.steps) for record in records), np.int64, len(records)) // 8
        texts: dict[str, Iterable[str]] = {
            "project": (record.project for record in records),
            "run": (record.run for record in records),
            "split": (record.split for record in records),
        }
        return cls(
            starts=np.cumsum(counts) - counts,
            counts=counts,
            step=np.frombuffer(b"".join([record.steps for record in records]), "<i8"),
            ts=np.frombuffer(b"".join([record.ts for record in records]), "<i8"),
            attempt=_spread((record.attempt for record in records), np.int64, counts),
            rank=_spread((record.rank for record in records), np.int32, counts),
            seq=_spread((record.seq for record in records), np.int64, counts),
            names={name: _coded(words, counts) for name, words in texts.items()},
        )


@dataclass(frozen=True)
class _Values:
    """One entry a value: which step entry it belongs to, which metric it is of."""

    at: Ints
    metric: Codes
    value: npt.NDArray[np.float64]
    metrics: Codes32

    @classmethod
    def of(cls, records: Sequence[MetricBatch], starts: Ints, counts: Ints) -> _Values:
        metrics = Codes32()
        dense, sparse = _dense_values(records, starts, counts, metrics), _sparse_values(records, starts, metrics)
        if not len(sparse[0]):
            return cls(*dense, metrics)
        return cls(
            np.concatenate([dense[0], sparse[0]]),
            np.concatenate([dense[1], sparse[1]]),
            np.concatenate([dense[2], sparse[2]]),
            metrics,
        )


Entries = tuple[Ints, Codes, npt.NDArray[np.float64]]


def _dense_values(records: Sequence[MetricBatch], starts: Ints, counts: Ints, metrics: Codes32) -> Entries:
    """Columns that have a value for every step; a record's bytes lie column after column."""
    columns = [_dense_columns(record) for record in records]
    codes = _codes_by_names(columns, metrics)
    of_record = [codes[tuple(found)] for found in columns]
    widths = np.fromiter((len(found) for found in columns), np.int64, len(columns))
    value = np.frombuffer(b"".join([b"".join(found.values()) for found in columns]), "<f8")
    sizes = widths * counts
    offset = np.arange(len(value)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    length = np.repeat(counts, sizes)
    at = np.repeat(starts, sizes) + offset % length
    first = np.repeat(np.cumsum(widths) - widths, sizes)
    flat = np.concatenate(of_record) if of_record else np.empty(0, np.int32)
    return at, flat[first + offset // length], value


def _dense_columns(record: MetricBatch) -> dict[str, bytes]:
    columns: dict[str, Any] = record.columns
    for column in columns.values():
        if type(column) is not bytes:
            return {name: found for name, found in columns.items() if type(found) is bytes}
    return columns


def _codes_by_names(columns: Sequence[dict[str, bytes]], metrics: Codes32) -> dict[tuple[str, ...], Codes]:
    return {names: metrics.of(names) for names in {tuple(found) for found in columns}}


def _sparse_values(records: Sequence[MetricBatch], starts: Ints, metrics: Codes32) -> Entries:
    at: list[Ints] = [np.empty(0, np.int64)]
    names: list[str] = []
    value: list[npt.NDArray[np.float64]] = [np.empty(0)]
    for record, start in zip(records, starts, strict=True):
        for name, column in record.columns.items():
            if isinstance(column, SparseColumn):
                at.append(np.frombuffer(column.at, "<u2").astype(np.int64) + start)
                value.append(np.frombuffer(column.values, "<f8"))
                names.append(name)
    metric = np.repeat(metrics.of(names), [len(found) for found in at[1:]])
    return np.concatenate(at), metric, np.concatenate(value)


def _long(steps: _Steps, values: _Values) -> pa.Table:
    at = values.at
    columns = {name: codes.column(numbers[at]) for name, (codes, numbers) in steps.names.items()}
    columns |= {
        "metric": values.metrics.column(values.metric),
        "attempt": pa.array(steps.attempt[at]),
        "rank": pa.array(steps.rank[at]),
        "step": pa.array(steps.step[at]),
        "ts": _times(steps.ts[at]),
        "value": pa.array(values.value),
        "seq": pa.array(steps.seq[at].astype(np.uint64)),
    }
    return pa.table([columns[name] for name in METRICS.names], schema=METRICS)


def _wide(records: Sequence[MetricBatch], steps: _Steps, values: _Values) -> pa.Table:
    counts = steps.counts
    columns = {name: codes.column(numbers) for name, (codes, numbers) in steps.names.items()}
    columns |= {name: _wide_column(metric, steps, values) for name, metric in WIDE_COLUMNS.items()}
    columns |= {
        "attempt": pa.array(steps.attempt),
        "rank": pa.array(steps.rank),
        "step": pa.array(steps.step),
        "ts": _times(steps.ts),
        "step_applied": _applied(records),
        "accumulation": pa.array(_spread((record.accumulation for record in records), np.uint32, counts)),
        "grad_norm_scaled": pa.array(_spread((record.grad_norm_scaled for record in records), np.bool_, counts)),
        "live": pa.array(_spread((record.live for record in records), np.bool_, counts)),
        "seq": pa.array(steps.seq.astype(np.uint64)),
    }
    for name in ("loss_scope", "grad_norm_scope", "update_norm_source"):
        codes, numbers = _coded((getattr(record, name) for record in records), counts)
        columns[name] = codes.column(numbers)
    return pa.table([columns[name] for name in STEPS.names], schema=STEPS)


def _last_steps(records: Sequence[MetricBatch], steps: _Steps) -> list[int]:
    """Where the greatest training step of each rank lies."""
    ends = (steps.starts + steps.counts - 1).tolist()
    numbers = steps.step[ends].tolist()
    last: dict[tuple[str, str, int, int], tuple[int, int]] = {}
    for record, end, number in zip(records, ends, numbers, strict=True):
        if record.split == "train":
            rank = (record.project, record.run, record.attempt, record.rank)
            last[rank] = max(last.get(rank, (-1, 0)), (number, end))
    return [end for _, end in last.values()]


def _wide_column(metric: str, steps: _Steps, values: _Values) -> pa.Array:
    found = values.metric == values.metrics.number(metric)
    column = np.zeros(len(steps.step))
    is_absent = np.ones(len(steps.step), np.bool_)
    at = values.at[found]
    column[at] = values.value[found]
    is_absent[at] = False
    return pa.array(column, mask=is_absent)


def _applied(records: Sequence[MetricBatch]) -> pa.Array:
    flags = b"".join([record.applied or b"\x01" * (len(record.steps) // 8) for record in records])
    return pa.array(np.frombuffer(flags, np.uint8) != 0)


def _spread(values: Iterable[Any], dtype: Any, counts: Ints) -> Any:
    """One value a record, repeated for each of its steps."""
    return np.repeat(np.fromiter(values, dtype, len(counts)), counts)


def _coded(words: Iterable[str], counts: Ints) -> tuple[Codes32, Codes]:
    codes = Codes32()
    return codes, np.repeat(codes.of(words), counts)


def _times(milliseconds: Ints) -> pa.Array:
    return pa.array(milliseconds).cast(TIME)
