"""The command: folders in, a table and one JSON object out."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.__main__ import scoreboard
from tests.scoreboard.folder import runs_of
from tests.scoreboard.score import score_run, total

KEYS = set(total([score_run(0, [], [])]))
SIZE, AT = 200, 150
LABEL_FIELDS = ("file", "row_start", "row_end", "kind", "recovered", "confidence", "incident")


def app() -> typer.Typer:
    command = typer.Typer()
    command.command()(scoreboard)
    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of two families; the first is lost at row 150."""
    for number in range(2):
        losses = 2.0 + 0.02 * np.random.default_rng(number).standard_normal(SIZE)
        if number == 0:
            losses[AT:] += 3.0
        with gzip.open(tmp_path / f"run{number}.csv.gz", "wt") as out:
            out.write("step,loss,grad_norm,note\n")
            for row, loss in enumerate(losses):
                out.write(f"{row},{loss},{'' if row % 2 else 0.5},x\n")
    write(tmp_path / "INDEX.csv", ("file", "family"), [(f"run{number}.csv.gz", f"f{number}") for number in range(2)])
    write(tmp_path / "labels.csv", LABEL_FIELDS, [("run0.csv.gz", 150, 199, "divergence", "no", "high", 1)])
    return tmp_path


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])


def test_a_folder_is_read_row_by_row(folder: Path) -> None:
    run, healthy = runs_of(folder)
    assert (run.name, run.family, len(run.records), len(healthy.labels)) == ("run0", "f0", SIZE, 0)
    assert set(run.records[0].values) == {LOSS, GRAD_NORM}
    assert set(run.records[1].values) == {LOSS}
    assert (run.labels[0].first_row, run.labels[0].recovered) == (150, False)


def test_numbers_that_are_none_and_steps_that_are_missing(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as out:
        out.write("step,loss\n5,nan\n,inf\n7,\n")
    write(tmp_path / "INDEX.csv", ("file", "family"), [("a.csv.gz", "f")])
    write(tmp_path / "labels.csv", LABEL_FIELDS, [])
    (run,) = runs_of(tmp_path)
    assert [record.step for record in run.records] == [5, 5, 7]
    assert [record.seq for record in run.records] == [0, 1, 2]
    assert str(run.records[0].values[LOSS]) == "nan"
    assert run.records[2].values == {}


def test_json_ends_with_a_row_for_each_rule(folder: Path) -> None:
    done = CliRunner().invoke(app(), ["--traces", str(folder), "--no-own", "--no-learned", "--only", "mean", "--json"])
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert set(rows) == {f"mean + {sds} sd, gradient 5 x median [{folder.name}]" for sds in (5, 3)}
    assert all(set(figures) == KEYS for figures in rows.values())


def test_the_folder_may_come_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLTER_SCOREBOARD_TRACES", str(folder))
    done = CliRunner().invoke(app(), ["--no-own", "--no-learned", "--only", "Holter", "--per-run"])
    assert done.exit_code == 0
    assert "2 runs, 400 rows, 1 incidents (1 lost)" in done.stdout


def test_leaving_families_out_is_a_row_of_its_own(folder: Path) -> None:
    arguments = ["--traces", str(folder), "--no-own", "--no-learned", "--only", "Megatron", "--leave-out", "family"]
    done = CliRunner().invoke(app(), [*arguments, "--candidates", "2", "--rounds", "0", "--processes", "1", "--json"])
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert rows[f"Holter, family left out [{folder.name}]"]["runs"] == 2
    assert "2 candidates" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--traces", "nowhere"], "nowhere/labels.csv is missing"),
        (["--only", "nobody"], "no rule is named so"),
        (["--leave-out", "family"], "--leave-out needs folders"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app(), [*arguments, "--no-own", "--no-learned"])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
