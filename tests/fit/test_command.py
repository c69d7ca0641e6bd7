from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli import fit as fit_command
from holter.pipeline.cli.main import app
from holter.pipeline.fit.from_store import SIGNALS_OF_CLOSED_INCIDENTS
from holter.pipeline.fit.learned_file import model_named
from holter.pipeline.fit.priors import APPLIED_ACTIONS, UNTREATED_INCIDENTS
from holter.pipeline.fit.weights_file import read_weights
from tests.fit.labelled import write_folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


@pytest.fixture
def no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLTER_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("HOLTER_STORE_DSN", raising=False)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled runs, to be read only."""
    return write_folder(tmp_path_factory.mktemp("runs"))


def rows(num_healed: int, num_lost: int) -> list[Sequence[Any]]:
    healed = [("p", f"r{at % 5}", f"h{at}", "recovered", False, _features(1.0)) for at in range(num_healed)]
    lost = [("p", f"r{at % 5}", f"l{at}", "lost", False, _features(0.0)) for at in range(num_lost)]
    return [*healed, *lost]


def _features(given_back: float) -> dict[str, float]:
    return {"num_records": 10.0, "given_back": given_back}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Sequence[Sequence[Any]]]:
    """What the store answers, by query."""
    found: dict[str, Sequence[Sequence[Any]]] = {
        SIGNALS_OF_CLOSED_INCIDENTS: rows(30, 10),
        APPLIED_ACTIONS: [("loss_spike", ["rollback"], "recovered")],
        UNTREATED_INCIDENTS: [("loss_spike", "lost", 2)],
    }
    monkeypatch.setattr(fit_command, "asker", lambda dsn: found.__getitem__)
    monkeypatch.setenv("HOLTER_STORE_DSN", "clickhouse://h:1/d")
    return found


def test_a_folder_of_labelled_runs_gives_a_file_of_weights(tmp_path: Path, labelled: Path, no_store: None) -> None:
    out = tmp_path / "weights.json"
    result = run("--traces", labelled, "--out", out)
    assert result.exit_code == 0, result.stderr
    for words in ("16 incidents healed and 6 were lost, in 2 groups", "base rate", "given_back", "groups left out"):
        assert words in result.stdout
    assert read_weights(out).base != 0.0


def test_a_folder_gives_a_learned_detector_that_replay_takes(tmp_path: Path, no_store: None) -> None:
    folder, out = write_folder(tmp_path, 2, 2), tmp_path / "learned.json"
    result = run("--traces", folder, "--detector", out)
    assert result.exit_code == 0, result.stderr
    for words in ("10 incidents in 4 runs of 2 families", "families left out", "not finite"):
        assert words in result.stdout
    log = str(folder / "heals-0.csv")
    replayed = CliRunner().invoke(app, ["replay", log, "--learned", str(out), "--json"])
    assert replayed.exit_code == 0, replayed.stderr
    said = json.loads(run("--traces", folder, "--detector", out, "--json").stdout)
    assert said["fitted"]["num_incidents"] == 10
    assert model_named(str(out)).threshold == said["model"]["threshold"]


def test_a_store_gives_the_same_and_what_helped(answers: object, tmp_path: Path) -> None:
    result = run("--priors", tmp_path / "helped.json")
    assert result.exit_code == 0, result.stderr
    assert "30 incidents healed and 10 were lost, in 5 groups" in result.stdout
    assert json.loads((tmp_path / "helped.json").read_text()) == {
        "loss_spike/monitor": {"num": 2, "num_recovered": 0},
        "loss_spike/rollback": {"num": 1, "num_recovered": 1},
    }


def test_for_machines_it_is_one_object(answers: dict[str, Any]) -> None:
    answers[SIGNALS_OF_CLOSED_INCIDENTS] = [*rows(30, 10), ("p", "r", "x", "rolled_back", False, _features(0.0))]
    result = run("--json")
    said = json.loads(result.stdout)
    assert (said["num_healed"], said["num_lost"], said["left_out"]) == (30, 10, {"it ended as rolled_back": 1})
    assert said["scores"]["fitted"] <= said["scores"]["before"]


def test_too_few_are_one_line_and_exit_status_2_and_the_priors_are_written_all_the_same(
    answers: dict[str, Any], tmp_path: Path
) -> None:
    answers[SIGNALS_OF_CLOSED_INCIDENTS] = rows(30, 4)
    result = run("--priors", tmp_path / "helped.json", "--out", tmp_path / "weights.json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "4 were lost" in result.stderr
    assert (tmp_path / "helped.json").exists()
    assert not (tmp_path / "weights.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "holter up"),
        (("--traces", "nowhere"), "nowhere"),
        (("--traces", "nowhere", "--priors", "x.json"), "leave --traces out"),
        (("--detector", "x.json"), "name folders with --traces"),
        (("--traces", "nowhere", "--detector", "x.json", "--out", "y.json"), "leave --out and --priors out"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_status_2(
    no_store: None, arguments: tuple[str, ...], words: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert words in result.stderr


def test_a_file_that_cannot_be_written_is_named(answers: object, tmp_path: Path) -> None:
    result = run("--out", tmp_path / "none" / "weights.json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "weights.json" in result.stderr


def test_help_has_an_example() -> None:
    assert "--out weights.json" in run("--help").stdout
