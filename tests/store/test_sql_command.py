from __future__ import annotations

import io
import json
import math
from datetime import datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from holter.pipeline.cli.sql import Answer, default_dsn, sql, write_csv, write_json
from tests.store.embedded import EmbeddedStore

ANSWER = Answer(["a", "b"], [(1, math.nan), (2, math.inf), (3, [-math.inf, None]), (4, datetime(2026, 1, 2, 3))])  # noqa: DTZ001


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(sql)
    return CliRunner().invoke(app, arguments)


def test_json_is_valid_whatever_the_values() -> None:
    out = io.StringIO()
    write_json(ANSWER, out)
    rows = json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert [row["b"] for row in rows] == ["NaN", "Infinity", ["-Infinity", None], "2026-01-02T03:00:00"]


def test_csv_has_a_line_of_names() -> None:
    out = io.StringIO()
    write_csv(Answer(["a", "b"], [(1, "x,y"), (0.1234567891, None)]), out)
    assert out.getvalue() == 'a,b\n1,"x,y"\n0.1234567891,\n'


def test_the_dsn_comes_from_the_state_of_the_stack(tmp_path: Path) -> None:
    environ = {"HOLTER_HOME": str(tmp_path)}
    assert default_dsn(environ) is None
    (tmp_path / "state.json").write_text("not json")
    assert default_dsn(environ) is None
    (tmp_path / "state.json").write_text('{"store.dsn": "clickhouse://h"}')
    assert default_dsn(environ) == "clickhouse://h"


def test_without_a_store_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLTER_HOME", str(tmp_path))
    monkeypatch.delenv("HOLTER_STORE_DSN", raising=False)
    result = run("SELECT 1")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "holter up" in result.stderr


def test_help_has_an_example() -> None:
    assert "FROM runs" in run("--help").stdout


@pytest.mark.services
def test_an_answer_as_table_json_and_csv(store: EmbeddedStore) -> None:
    query = "SELECT number AS n, nan AS x FROM numbers(2);"
    assert "2 rows" in run(query, "--dsn", store.dsn.url).stdout
    assert json.loads(run(query, "--json", "--dsn", store.dsn.url).stdout) == [
        {"n": 0, "x": "NaN"},
        {"n": 1, "x": "NaN"},
    ]
    assert run(query, "--csv", "--dsn", store.dsn.url).stdout == "n,x\n0,nan\n1,nan\n"
    assert "run" in run("DESCRIBE TABLE runs", "--csv", "--dsn", store.dsn.url).stdout
    assert run("SHOW TABLES", "--csv", "--dsn", store.dsn.url).stdout.startswith("name\n")


@pytest.mark.services
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT nope", "nope"),
        ("DROP TABLE raw_steps", "only reads"),
        ("INSERT INTO raw_health (id) VALUES ('x')", "only reads"),
        ("SELECT number FROM numbers(200000)", "LIMIT"),
        ("SELECT * FROM file('/etc/passwd')", "not allowed"),
        ("SELECT 1; SELECT 2", "Multi-statements"),
    ],
)
def test_a_refused_query_is_one_line_and_exit_status_2(store: EmbeddedStore, query: str, words: str) -> None:
    result = run(query, "--dsn", store.dsn.url)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert words in result.stderr


@pytest.mark.network
def test_a_store_that_does_not_answer_is_one_line_and_exit_status_2() -> None:
    result = run("SELECT 1", "--dsn", "clickhouse://me:secret@127.0.0.1:9/holter")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "does not answer" in result.stderr
    assert "secret" not in result.stderr
