"""The table: a row for each rule on each corpus."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from tests.scoreboard.score import Figures

COLUMNS: dict[str, str] = {
    "f1": "F1",
    "recall": "recall",
    "precision": "precision",
    "false_signals_per_10k": "false /10k",
    "late": "late",
    "delay_median": "delay",
    "lost_acted": "lost acted",
    "selfheal_acted": "healing acted",
    "false_actions_per_10k": "false acts /10k",
    "brier": "Brier",
}


def table(title: str, rows: Mapping[str, Figures]) -> Table:
    shown = Table(title=title, title_justify="left")
    shown.add_column("rule", no_wrap=True)
    for heading in COLUMNS.values():
        shown.add_column(heading, justify="right")
    for name, figures in rows.items():
        shown.add_row(name, *(_cell(figures[key]) for key in COLUMNS))
    return shown


def caption(figures: Figures) -> str:
    return (
        f"{figures['runs']} runs, {figures['rows']:,} rows, {figures['incidents']} incidents ({figures['lost']} lost)"
    )


def _cell(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"
