"""``holter advise``: what it prints, quotes, refuses, and asks of the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli import advise as command
from holter.pipeline.cli.main import app

TABLE = {
    "setting": "a toy",
    "losses": {
        "none/gradient/0.999": [2.2139, 0.02],
        "zclip/gradient/0.999": [1.9188, 0.004],
        "globalgc/clean/0.95": [None, None],
    },
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "table.txt").write_text("a table\n" + json.dumps(TABLE) + "\n")


def holter_advise(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["advise", "--parameters", "1B", *arguments])


def test_measured_numbers_are_quoted_beside_claims() -> None:
    done = holter_advise("--steps", "20000", "--gradient", "3", "--table", "table.txt")
    assert done.exit_code == 0, done.output
    assert "What has happened? 3 exploding gradients in 20,000 steps" in done.output
    assert "measured: final loss 1.919 ±0.004 (unclipped 2.214) after gradient ×1000, β2 0.999" in done.output
    assert "its authors claim: test loss 2.33 → 2.18" in done.output
    assert "measured: a toy" in done.output


def test_a_table_without_the_advised_ones_is_said_so() -> None:
    done = holter_advise("--parameters", "7B", "--table", "table.txt")
    assert "none of these was measured here: make stabilisers" in done.output
    assert "final loss" not in done.output


def test_no_number_is_made_up_where_nothing_was_measured() -> None:
    done = holter_advise("--use", "prototype")
    assert "nothing was measured here: make stabilisers" in done.output
    assert "final loss" not in done.output


def test_json_is_one_object() -> None:
    document = json.loads(holter_advise("--table", "table.txt", "--json").stdout)
    assert [each["name"] for each in document["advised"]] == ["GlobalGC"]
    assert document["advised"][0]["measured"] == {"clean, β2 0.95": [None, None]}
    assert document["history"] is None
    assert document["measured_setting"] == "a toy"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--parameters", "many"], "no number of parameters"),
        (["--use", "fun"], "is none of production"),
        (["--optimizer", "lbfgs"], "is none of adam"),
        (["--gradient", "3"], "--steps"),
        (["--table", "absent.json"], "--table"),
        (["gpt/run-1"], "no store is known here"),
    ],
)
def test_wrong_use_is_told_and_exit_2(arguments: list[str], said: str) -> None:
    done = holter_advise(*arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_a_runs_history_comes_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def answer(_: Any, query: str, names: dict[str, str]) -> Sequence[Sequence[Any]]:
        asked.append(names)
        return [(1, 5000)] if "FROM runs" in query else [("grad_explosion", 2, 1), ("hang", 1, 0)]

    monkeypatch.setattr(command, "_ask", answer)
    done = holter_advise("gpt/run-1", "--dsn", "clickhouse://localhost/holter", "--json")
    assert asked == [{"project": "gpt", "run": "run-1"}] * 2
    history = json.loads(done.stdout)["history"]
    assert (history["num_steps"], history["num_gradient"], history["num_lost"]) == (5000, 2, 1)


def test_a_run_that_the_store_does_not_know_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_ask", lambda *_: [(0, 0)])
    done = holter_advise("gpt", "--dsn", "clickhouse://localhost/holter")
    assert done.exit_code == 2
    assert "the store has no run of gpt" in done.stderr
