"""What a reader makes of a log: columns of numbers, by the log's own names, a row a logged line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Column = list[float | None]
"""A value a row: None where none was logged; what is not finite is there as itself."""


@dataclass
class Table:
    """
    Attributes:
        columns: all of one length.
        seen: the names of all columns of the log, also of those that were not read.
        set_aside: lines and values that could not be read, counted by reason.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    num_rows: int = 0
    seen: set[str] = field(default_factory=set)
    set_aside: Counter[str] = field(default_factory=Counter)

    def add(self, values: Mapping[str, float | None]) -> None:
        """Appends a row; a column that is new here has no values in the rows before."""
        row = self.num_rows
        for name, value in values.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = []
            if len(column) < row:
                column.extend([None] * (row - len(column)))
            column.append(value)
        self.num_rows = row + 1

    def finish(self) -> Table:
        """Brings the columns to one length."""
        for column in self.columns.values():
            column.extend([None] * (self.num_rows - len(column)))
        return self

    def num_values(self) -> dict[str, int]:
        return {name: len(column) - column.count(None) for name, column in self.columns.items()}


_ABSENT = frozenset({"", "none", "null", "na", "n/a", "-", "--", "."})


def numbers(cells: Iterable[str], set_aside: Counter[str]) -> Column:
    """The cells of a column as numbers; an empty one is None, another that is no number is counted, too.

    >>> numbers(["1.5", "", "nan", "-inf", "two"], Counter())
    [1.5, None, nan, -inf, None]
    """
    cells = list(cells)
    try:
        return list(map(float, cells))
    except ValueError:
        return [_number(cell, set_aside) for cell in cells]


def _number(cell: str, set_aside: Counter[str]) -> float | None:
    try:
        return float(cell)
    except ValueError:
        if cell.strip().lower() not in _ABSENT:
            set_aside["a value that is no number"] += 1
        return None


def number_of(value: object) -> float | None:
    """A JSON value as a number: NaN and infinities may be written as strings; anything else is None.

    >>> number_of(3), number_of("NaN"), number_of(True), number_of([1])
    (3.0, nan, None, None)
    """
    if isinstance(value, float):
        return value
    if isinstance(value, bool):
        return None
    try:
        return float(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
    except OverflowError:
        return math.inf
