from __future__ import annotations

import math
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.loader.metric_tables import WIDE_COLUMNS, metric_tables
from holter.schemas.telemetry import LOSS, MetricBatch, SparseColumn, pack_floats, pack_ints, pack_offsets

METRICS = ["train/loss", "optim/lr", "m/a", "m/b"]
FLOATS = st.floats(width=64)


@st.composite
def batches(draw: st.DrawFn) -> MetricBatch:
    num_steps = draw(st.integers(1, 5))
    first = draw(st.integers(0, 1000))
    columns: dict[str, bytes | SparseColumn] = {}
    for name in draw(st.lists(st.sampled_from(METRICS), unique=True)):
        at = draw(st.lists(st.integers(0, num_steps - 1), unique=True, min_size=1).map(sorted))
        values = [draw(FLOATS) for _ in range(num_steps)]
        is_dense = draw(st.booleans())
        sparse = SparseColumn(pack_offsets(*at), pack_floats(*(values[offset] for offset in at)))
        columns[name] = pack_floats(*values) if is_dense else sparse
    return MetricBatch(
        draw(st.sampled_from(["p", "q"])), draw(st.sampled_from(["r", "s"])), draw(st.integers(0, 3)),
        draw(st.integers(-1, 2)), "session", draw(st.integers(0, 99)), pack_ints(*range(first, first + num_steps)),
        pack_ints(*range(num_steps)), columns, applied=draw(st.sampled_from([b"", b"\x00" * num_steps])),
        split=draw(st.sampled_from(["train", "eval"])),
    )  # fmt: skip


def bits(value: float | None) -> bytes | None:
    """NaN equals itself and 0.0 is not -0.0."""
    return None if value is None else struct.pack("<d", value)


@settings(max_examples=25, deadline=None)
@given(st.lists(batches(), min_size=1, max_size=4))
def test_every_value_is_one_row_and_every_step_is_one_row(records: list[MetricBatch]) -> None:
    tables = metric_tables(records)
    values, steps = tables["raw_metrics"].to_pylist(), tables["raw_steps"].to_pylist()
    expected_values, expected_steps = [], []
    for record in records:
        numbers = record.step_numbers()
        who = (record.project, record.run, record.attempt, record.rank, record.split, record.seq)
        for name in record.columns:
            column = record.column(name)
            expected_values += [(*who, name, numbers[offset], bits(value)) for offset, value in column.items()]
        for offset, number in enumerate(numbers):
            wide = [bits(record.column(name).get(offset)) for name in WIDE_COLUMNS.values()]
            expected_steps.append((*who, number, not record.applied, *wide))
    names = ("project", "run", "attempt", "rank", "split", "seq")
    found_values = [(*(row[n] for n in names), row["metric"], row["step"], bits(row["value"])) for row in values]
    found_steps = [
        (*(row[n] for n in names), row["step"], row["step_applied"], *(bits(row[n]) for n in WIDE_COLUMNS))
        for row in steps
    ]
    assert sorted(found_values, key=repr) == sorted(expected_values, key=repr)
    assert found_steps == expected_steps


def test_times_are_those_of_the_steps() -> None:
    record = MetricBatch("p", "r", 1, 0, "s", 0, pack_ints(7, 8), pack_ints(1000, 2000), {LOSS: pack_floats(1.0, 2.0)})
    tables = metric_tables([record])
    for name in ("raw_metrics", "raw_steps"):
        assert [row["ts"].timestamp() for row in tables[name].to_pylist()] == [1.0, 2.0]


def test_the_last_step_of_each_rank_is_known() -> None:
    def record(rank: int, first: int, split: str = "train") -> MetricBatch:
        columns: dict[str, bytes | SparseColumn] = {LOSS: pack_floats(float(first), first + 1.0)}
        steps, times = pack_ints(first, first + 1), pack_ints(1, 2)
        return MetricBatch("p", "r", 1, rank, "s", first, steps, times, columns, split=split)  # type: ignore[arg-type]

    rows = metric_tables([record(0, 7), record(0, 3), record(1, 2), record(0, 9, "eval")])["raw_last_steps"].to_pylist()
    assert [(row["rank"], row["step"], row["loss"]) for row in rows] == [(0, 8, 8.0), (1, 3, 3.0)]


def test_a_batch_without_columns_still_has_its_steps() -> None:
    record = MetricBatch("p", "r", 1, 0, "s", 0, pack_ints(7), pack_ints(1000), {})
    tables = metric_tables([record])
    assert (tables["raw_metrics"].num_rows, tables["raw_steps"].num_rows) == (0, 1)
    assert tables["raw_steps"].to_pylist()[0]["loss"] is None


def test_non_finite_values_are_themselves() -> None:
    record = MetricBatch("p", "r", 1, 0, "s", 0, pack_ints(7), pack_ints(1000), {LOSS: pack_floats(math.nan)})
    assert math.isnan(metric_tables([record])["raw_steps"].to_pylist()[0]["loss"])
