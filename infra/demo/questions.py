"""Three questions that the history answers, with SQL."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from holter.pipeline.store.client import connect
from holter.pipeline.store.dsn import parse_dsn

QUESTIONS = {
    "What went wrong, how likely was it to heal by itself, and what was chosen?": """
SELECT run, kind, onset_step, state, round(p_recover_first, 2) AS p_at_onset, round(p_recover, 2) AS p_last, choices
FROM incidents WHERE project = 'demo' AND startsWith(run, {name:String}) ORDER BY run, onset_step""",
    "What was done about it, did it help, and what did it cost?": """
SELECT run, effects, status, result, applied_step, lost_steps,
       dateDiff('millisecond', decided, answered) AS decided_to_answered_ms
FROM actions WHERE project = 'demo' AND startsWith(run, {name:String}) ORDER BY run, decided""",
    "How did the loss go, on the line that survived?": """
SELECT intDiv(step, 100) * 100 AS from_step,
       round(avgIf(loss, isFinite(loss) AND endsWith(run, 'unhurt')), 3) AS unhurt,
       round(avgIf(loss, isFinite(loss) AND endsWith(run, 'shadow')), 3) AS shadow,
       round(avgIf(loss, isFinite(loss) AND endsWith(run, 'guarded')), 3) AS guarded
FROM surviving_steps WHERE project = 'demo' AND startsWith(run, {name:String}) GROUP BY from_step ORDER BY from_step""",
}
_LOADED_SECONDS = 30.0


def wait_until_loaded(dsn: str, runs: list[str]) -> bool:
    """Whether the ends of these runs reached the store."""
    client = connect(parse_dsn(dsn))
    deadline = time.monotonic() + _LOADED_SECONDS
    while time.monotonic() < deadline:
        query = "SELECT count() FROM runs WHERE run IN {runs:Array(String)} AND status = 'completed'"
        if client.query(query, {"runs": runs}).result_rows[0][0] == len(runs):
            return True
        time.sleep(0.3)
    return False


def ask(dsn: str, name: str, console: Console) -> None:
    """Prints each question, its SQL and the answer."""
    client = connect(parse_dsn(dsn))
    for number, (question, sql) in enumerate(QUESTIONS.items(), start=1):
        result = client.query(sql, {"name": name})
        console.print(f"\n[bold]{number}. {question}[/bold]")
        console.print(sql.strip().replace("{name:String}", f"'{name}'"), style="dim", highlight=False, markup=False)
        shown = Table()
        for column in result.column_names:
            shown.add_column(column, overflow="fold")
        for row in result.result_rows:
            shown.add_row(*(_text(value) for value in row))
        console.print(shown)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)
