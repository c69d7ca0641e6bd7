"""Plain-text logs: what is no line of values is passed over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table

Parse = Callable[[str, ColumnNames], dict[str, float | None]]
"""The values of use in a line, by the log's own names and ``step``; nothing where it has none."""

NUMBER: Final = (
    r"[-+]?(?:(?:\d+(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?)\b)"
)
"""A number as people print it: thousands may be apart, and it may be nan or inf."""

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_MAX_LINE = 10_000


def number(text: str) -> float:
    """What :data:`NUMBER` matched.

    >>> number("1,234.5"), number("-inf")
    (1234.5, -inf)
    """
    return float(text.replace(",", ""))


def line_format(name: str, title: str, parse: Parse) -> Format:
    """A format of which each line stands for itself."""

    def fits(file: LogFile, names: ColumnNames) -> int:
        return sum(bool(parse(_plain(line), names)) for line in file.head_text.splitlines())

    def read(file: LogFile, names: ColumnNames) -> Table:
        table = Table()
        for line in file.lines():
            if values := parse(_plain(line), names):
                table.add(values)
        return table.finish()

    return Format(name, title, fits, read)


def _plain(line: str) -> str:
    """A line without colours; of an overlong one, which no trainer prints, the beginning."""
    line = line[:_MAX_LINE]
    return _COLORS.sub("", line) if "\x1b" in line else line
