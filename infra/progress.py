"""What a person sees while a stack comes up: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text


class Progress(Protocol):
    def says(self, name: str, what: str) -> None:
        """A component works on something."""

    def done(self, name: str, what: str) -> None:
        """A component is finished."""

    def failed(self, name: str, what: str) -> None:
        """A component cannot be finished."""


@contextmanager
def show_progress(console: Console, names: Sequence[str]) -> Iterator[Progress]:
    """A progress display for the time of the block."""
    if not console.is_terminal:
        yield LineProgress(console)
        return
    table = TableProgress(names)
    with Live(table, console=console, refresh_per_second=8):
        yield table


class LineProgress:
    """One line a change, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._last: dict[str, str] = {}
        self._lock = threading.Lock()

    def says(self, name: str, what: str) -> None:
        with self._lock:
            if self._last.get(name) != what:
                self._last[name] = what
                self._print(name, what)

    def done(self, name: str, what: str) -> None:
        self._print(name, what)

    def failed(self, name: str, what: str) -> None:
        self._print(name, what)

    def _print(self, name: str, what: str) -> None:
        seconds = time.monotonic() - self._begun
        self._console.print(f"{seconds:5.1f} s  {name:<12} {what}", markup=False, highlight=False, soft_wrap=True)


class TableProgress:
    """A row a component: a spinner while it works, its outcome and time when it is finished."""

    def __init__(self, names: Sequence[str]) -> None:
        self._begun = time.monotonic()
        self._rows: dict[str, _Row] = {name: _Row("waiting", self._begun) for name in names}
        self._spinner = Spinner("dots")

    def says(self, name: str, what: str) -> None:
        self._rows[name] = _Row(what, self._begun, mark="spin")

    def done(self, name: str, what: str) -> None:
        self._rows[name] = _Row(what, self._begun, mark="✓", style="green", seconds=time.monotonic() - self._begun)

    def failed(self, name: str, what: str) -> None:
        self._rows[name] = _Row(what, self._begun, mark="✗", style="red", seconds=time.monotonic() - self._begun)

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, row in list(self._rows.items()):
            mark = self._spinner if row.mark == "spin" else Text(row.mark, style=row.style)
            table.add_row(mark, name, Text(row.what, style=row.style), Text(f"{row.elapsed():.1f} s", style="dim"))
        return table


class _Row:
    def __init__(self, what: str, begun: float, mark: str = " ", style: str = "", seconds: float | None = None) -> None:
        self.what = what
        self.mark = mark
        self.style = style
        self._begun = begun
        self._seconds = seconds

    def elapsed(self) -> float:
        return time.monotonic() - self._begun if self._seconds is None else self._seconds
