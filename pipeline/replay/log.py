"""A log as the stages take it: its judged metrics by Holter's names, one record a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holter.pipeline.core.steps import StepRecord
from holter.pipeline.replay.columns import STEP, Chosen, ColumnNames
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.table import Column, Table
from holter.schemas.bounds import MAX_INT


@dataclass(frozen=True)
class Log:
    """
    Attributes:
        steps: one a row; where a row names none it has that of the row before.
        metrics: by Holter's names, each as long as ``steps``.
        sources: the log's own column names, by Holter's.
        notes: what the user should know of how it was read, a line each.
    """

    path: Path
    format: str
    steps: list[int]
    metrics: dict[str, Column]
    sources: dict[str, str]
    notes: list[str] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        return len(self.steps)

    def is_in_order(self) -> bool:
        """Whether no step is lower than the one before: one run, never restarted."""
        return all(before <= after for before, after in zip(self.steps, self.steps[1:], strict=False))

    def records(self) -> Iterator[StepRecord]:
        """Every row in order. A step that goes back begins a new attempt: the run was restarted, or another begins."""
        attempt = last = 0
        for row, (step, values) in enumerate(zip(self.steps, self._values(), strict=True)):
            attempt += step < last
            last = step
            yield StepRecord(attempt, 0, step, 0, row, True, True, values)

    def _values(self) -> Iterator[dict[str, float]]:
        """The metrics of each row, without those it does not have."""
        names = tuple(self.metrics)
        for row in zip(*self.metrics.values(), strict=True):
            if None in row:
                yield {name: value for name, value in zip(names, row, strict=True) if value is not None}
            else:
                yield dict(zip(names, row))  # noqa: B905 - a microsecond a row counts here


def log_of(path: Path, format_name: str, table: Table, names: ColumnNames, notes: list[str]) -> Log:
    """Finds the judged metrics among a table's columns.

    Raises:
        UnreadableLog: there are none, or no rows.
    """
    if not table.num_rows:
        raise UnreadableLog("no line of it holds values of a training step")
    chosen = names.choose(table.num_values(), table.seen | table.columns.keys())
    steps, step_notes = _steps(table, chosen)
    metrics = {role: table.columns[name] for role, name in chosen.by_role.items() if role != STEP}
    aside = [f"{count:,} × {reason}: set aside" for reason, count in sorted(table.set_aside.items())]
    return Log(path, format_name, steps, metrics, chosen.by_role, [*notes, *aside, *step_notes, *chosen.notes])


def _steps(table: Table, chosen: Chosen) -> tuple[list[int], list[str]]:
    name = chosen.by_role.get(STEP)
    if name is None:
        return list(range(table.num_rows)), ["no column holds steps: rows are counted instead"]
    column = table.columns[name]
    if (whole := _whole_numbers(column)) is not None:
        return whole, []
    if any(value is not None and value % 1.0 > 0.0 for value in column):
        return list(range(table.num_rows)), [f"column {name!r} holds no whole numbers: rows are counted instead"]
    steps, last, num_bad = [], 0, 0
    for value in column:
        if value is not None:
            if 0.0 <= value <= MAX_INT:
                last = int(value)
            else:
                num_bad += 1
        steps.append(last)
    return steps, [f"{num_bad:,} × a step out of range: the one before stands in"] if num_bad else []


def _whole_numbers(column: Column) -> list[int] | None:
    """The column as steps, where every row has one that may be a step."""
    try:
        steps = list(map(int, column))  # type: ignore[arg-type]  # of a None it raises
    except (TypeError, ValueError, OverflowError):
        return None
    return steps if steps == column and min(steps) >= 0 and max(steps) <= MAX_INT else None
