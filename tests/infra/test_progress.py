from __future__ import annotations

import io

from rich.console import Console

from holter.infra.progress import LineProgress, TableProgress, show_progress


def test_without_a_terminal_each_change_is_one_plain_line() -> None:
    output = io.StringIO()
    with show_progress(Console(file=output, width=200), ["kafka"]) as progress:
        assert isinstance(progress, LineProgress)
        progress.says("kafka", "starting")
        progress.says("kafka", "starting")
        progress.done("kafka", "up [1/2]")
    lines = [line.split("s  ", 1)[1] for line in output.getvalue().splitlines()]
    assert [line.split() for line in lines] == [["kafka", "starting"], ["kafka", "up", "[1/2]"]]


def test_on_a_terminal_there_is_a_row_a_component() -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=True, color_system=None)
    with show_progress(console, ["kafka", "store"]) as progress:
        assert isinstance(progress, TableProgress)
        progress.done("kafka", "up")
        progress.failed("store", "no such folder")
    shown = output.getvalue()
    assert "✓  kafka" in shown
    assert "✗  store" in shown
    assert "no such folder" in shown
