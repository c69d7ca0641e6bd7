"""``holter advise``: what it prints, quotes, refuses, and asks of the store."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli import advise as command
from holter.pipeline.cli.advise_quotes import measured, wording
from holter.pipeline.cli.main import app
from holter.pipeline.core.advise import stabilisers
from holter.pipeline.core.advise.stabilisers import Stabiliser

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
    assert "measured by make stabilisers: a toy" in done.output


def test_a_table_without_the_advised_ones_is_said_so() -> None:
    done = holter_advise("--parameters", "7B", "--table", "table.txt")
    assert "none of these is in the measured table" in done.output
    assert "final loss" not in done.output


@pytest.mark.parametrize("stabiliser", [each for each in vars(stabilisers).values() if isinstance(each, Stabiliser)])
def test_what_is_quoted_is_what_the_table_that_comes_with_holter_says(stabiliser: Stabiliser) -> None:
    losses = measured()["losses"]
    own = {key: mean for key, (mean, _) in losses.items() if key.split("/")[0] == stabiliser.arm}
    assert bool(own) == bool(stabiliser.arm)
    said = wording(measured(), stabiliser.arm)
    quoted = [float(number) for number in re.findall(r"(\d\.\d{3}) ±", said)]
    unclipped = [float(number) for number in re.findall(r"unclipped (\d\.\d{3})", said)]
    assert quoted == [round(mean, 3) for mean in own.values()]
    assert unclipped == [round(losses[f"none/{key.partition('/')[2]}"][0], 3) for key in own]


def test_without_another_table_that_one_is_quoted() -> None:
    done = holter_advise("--use", "prototype")
    assert wording(measured(), "globalgc") in " ".join(done.output.split())
    assert measured()["setting"] in done.output


def test_json_is_one_object() -> None:
    document = json.loads(holter_advise("--table", "table.txt", "--json").stdout)
    assert [each["name"] for each in document["advised"]] == ["GlobalGC"]
    assert document["advised"][0]["measured"] == {"no fault, β2 0.95": [None, None]}
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
