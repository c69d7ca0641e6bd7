"""``holter sql``: a question to the store, its answer as a table, JSON or CSV. It only reads."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holter.pipeline.store.client import connect, store_errors
from holter.pipeline.store.dsn import DSN_VARIABLE, Dsn, parse_dsn
from holter.pipeline.store.errors import StoreError

HOME_VARIABLE = "HOLTER_HOME"
DEFAULT_HOME = ".holter"
MAX_ROWS = 100_000
MAX_SECONDS = 30
_READONLY, _TOO_MANY_ROWS, _WRONG_PASSWORD = 164, 396, 516
_SETTINGS = {"readonly": 2, "max_result_rows": MAX_ROWS, "max_execution_time": MAX_SECONDS}


@dataclass(frozen=True)
class Answer:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def sql(
    query: Annotated[str, typer.Argument(help="One statement that reads.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array of objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a line of names.")] = False,
    dsn: Annotated[
        str | None, typer.Option(envvar=DSN_VARIABLE, help="The store; by default the one that `holter up` started.")
    ] = None,
) -> None:
    """Ask the history with SQL.

    Example: holter sql "SELECT run, status, last_step, open_kind FROM runs"

    The views are runs, attempts, steps, surviving_steps, metrics, windows,
    signals, notices, incidents, decisions, actions and outcomes;
    `DESCRIBE TABLE runs` explains the columns of one.

    At most 100,000 rows and 30 seconds. In JSON what is not finite is the
    string "NaN", "Infinity" or "-Infinity".
    """
    try:
        answer = ask(_dsn(dsn, os.environ), query)
    except StoreError as error:
        typer.echo(f"holter sql: {explain(error)}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        write_json(answer, sys.stdout)
    elif as_csv:
        write_csv(answer, sys.stdout)
    else:
        Console().print(as_table(answer))


def ask(dsn: Dsn, query: str) -> Answer:
    """Raises:
    StoreError: the store does not answer, or refuses the query.
    """
    client = connect(dsn)
    try:
        with store_errors(dsn):
            result = client.query(query.rstrip().rstrip(";"), settings=_SETTINGS)
        return Answer(result.column_names, result.result_rows)
    finally:
        client.close()


def default_dsn(environ: Mapping[str, str]) -> str | None:
    """The DSN of the local stack from its state file, None where there is none."""
    path = Path(environ.get(HOME_VARIABLE, DEFAULT_HOME)) / "state.json"
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state.get("store.dsn") if isinstance(state, dict) else None


def explain(error: StoreError) -> str:
    """One line for the person who asked."""
    if error.code == _READONLY:
        return "it only reads, and this statement would change the store; use a ClickHouse client for that"
    if error.code == _TOO_MANY_ROWS:
        return f"the answer has more than {MAX_ROWS:,} rows: add a LIMIT or aggregate"
    if error.code == _WRONG_PASSWORD:
        return "the store refuses the user or the password of the DSN"
    return " ".join(str(error).removeprefix(f"Code: {error.code}. DB::Exception: ").split())


def write_json(answer: Answer, out: IO[str]) -> None:
    rows = [dict(zip(answer.columns, map(plain, row), strict=True)) for row in answer.rows]
    json.dump(rows, out, allow_nan=False, ensure_ascii=False)
    out.write("\n")


def write_csv(answer: Answer, out: IO[str]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_exact(value) for value in row] for row in answer.rows)


def as_table(answer: Answer) -> Table:
    table = Table(caption=f"{len(answer.rows):,} rows")
    for at, name in enumerate(answer.columns):
        is_number = bool(answer.rows) and isinstance(answer.rows[0][at], int | float)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def plain(value: Any) -> Any:
    """The value as JSON can carry it.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, 'NaN']}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _exact(value)


def _exact(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(plain(value), ensure_ascii=False)
    return str(plain(value))


def _dsn(given: str | None, environ: Mapping[str, str]) -> Dsn:
    text = given or default_dsn(environ)
    if not text:
        raise StoreError(f"no store is known here: run `holter up`, give --dsn or set {DSN_VARIABLE}")
    return parse_dsn(text)
