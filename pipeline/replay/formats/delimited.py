"""CSV and its kin, plain or gzipped, with a line of names: of loggers, of AlgoPerf, of wandb's history and charts."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import dropwhile, islice

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table, numbers

_DELIMITERS = ",\t;"
_TRIED_LINES = 20
_CHUNK_ROWS = 8192


def fits(file: LogFile, names: ColumnNames) -> int:
    """Names that are no numbers stand above lines that have as many fields, and numbers in them."""
    lines = _table_lines(file.head_text.splitlines())
    if len(lines) < 2:
        return 0
    delimiter = _delimiter(lines[0])
    header, *rows = list(_rows(lines, delimiter, Table())) or [[]]
    if any(_is_number(name) or len(name) > 200 for name in header):
        return 0
    good = [row for row in rows if len(row) == len(header) and any(map(_is_number, row))]
    return len(good) if 2 * len(good) >= len(rows) else 0


def read(file: LogFile, names: ColumnNames) -> Table:
    lines = file.lines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    delimiter = _delimiter(first)
    header = next(_rows([first], delimiter, Table()), [])
    if not header:
        raise UnreadableLog("it has no line of column names")
    table = Table(seen=set(header))
    wanted = {name: at for at, name in enumerate(header) if names.role(name)}
    for name in wanted:
        table.columns[name] = []
    rows = _rows(lines, delimiter, table)
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        _take(table, chunk, header, wanted)
    return table


def _take(table: Table, chunk: list[list[str]], header: list[str], wanted: dict[str, int]) -> None:
    width = len(header)
    if any(len(row) != width for row in chunk) or header in chunk:
        chunk = list(_whole_rows(table, chunk, header))
    for name, at in wanted.items():
        table.columns[name].extend(numbers([row[at] for row in chunk], table.set_aside))
    table.num_rows += len(chunk)


def _whole_rows(table: Table, chunk: list[list[str]], header: list[str]) -> Iterator[list[str]]:
    """Leaves out empty lines, repeated names (logs that were put one behind another) and what has other fields."""
    for row in chunk:
        if len(row) == len(header) and row != header:
            yield row
        elif row and row != header:
            table.set_aside["a line with more or fewer fields than there are names"] += 1


def _rows(lines: Iterable[str], delimiter: str, table: Table) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            table.set_aside["a line that is no CSV"] += 1


def _table_lines(lines: Iterable[str]) -> list[str]:
    """The first lines without what stands above the names."""
    filled = (line for line in lines if line.strip())
    return list(islice(dropwhile(lambda line: line.startswith("#"), filled), _TRIED_LINES))


def _delimiter(line: str) -> str:
    """The sign that is most frequent in the line of names."""
    return max(_DELIMITERS, key=line.count)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


DELIMITED = Format("csv", "CSV or TSV with a line of names (also of wandb's history and charts)", fits, read)
