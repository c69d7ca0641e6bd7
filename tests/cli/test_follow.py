"""``holter follow`` over JSON lines; TensorBoard's and W&B's files are read in the tests of their integrations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holter.pipeline.cli.main import app
from holter.producers.integrations.follow import Followed
from holter.producers.integrations.scalars import JsonLines, Scalar
from holter.producers.integrations.tracked_names import TrackedNames
from tests.producers.test_actions import make_run
from tests.producers.watch import FakeWatch


@pytest.fixture(autouse=True)
def disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLTER_MODE", "disabled")


def follow(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["follow", *arguments])
    return result.exit_code, result.output


def write(path: Path, *rows: object) -> Path:
    with path.open("a") as file:
        file.writelines(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    return path


def test_a_growing_file_is_read_on_and_a_restart_is_an_attempt(tmp_path: Path) -> None:
    told = FakeWatch()
    run = make_run(told)
    followed = Followed(run, TrackedNames({"ce": "train/loss"}), lambda: 10**15)
    path = write(tmp_path / "log.jsonl", {"step": 10, "ce": 1.0}, {"step": 11, "ce": 2.0, "eval": {"loss": 3}})
    lines = JsonLines(path)
    assert followed.take(lines.new_scalars()) == 3
    with path.open("a") as file:
        file.write('{"step": 12, "ce"')
    assert followed.take(lines.new_scalars()) == 0
    with path.open("a") as file:
        file.write(": 2.5}\n")
    write(path, {"step": 11, "ce": 4.0})
    assert followed.take(lines.new_scalars()) == 2
    run.finish()
    first, second = sorted({batch.attempt for batch in told.batches()})
    assert told.values("train/loss", first) == {1: 1.0, 10: 1.0, 11: 2.0, 12: 2.5}
    assert told.values("eval/loss", first) == {11: 3.0}
    assert told.values("train/loss", second) == {11: 4.0}


def test_what_is_no_row_is_counted_and_a_row_without_a_step_comes_after_the_last(tmp_path: Path) -> None:
    lines = JsonLines(write(tmp_path / "log.jsonl", "no json", "[1]", "", {"loss": 1.0, "ok": True}, {"loss": 2.0}))
    assert list(lines.new_scalars()) == [Scalar("loss", 1.0, 1), Scalar("loss", 2.0, 2)]
    assert lines.num_unreadable == 2


def test_the_verb_says_what_it_read(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", {"step": 1, "loss": 1.0}, "torn")
    code, said = follow(str(path), "--project", "tests", "--idle-seconds", "0")
    assert code == 0
    assert "1 values of" in said
    assert "run 'log' of project 'tests'" in said
    assert "1 lines are no JSON objects" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing", "--project", "tests"], "there is no missing"),
        (["empty.jsonl", "--project", "tests", "--idle-seconds", "0"], "0 values"),
        (["empty.jsonl", "--project", "tests", "--map", "loss"], "'loss' is not TAG=METRIC"),
        (["empty.jsonl", "--project", "a/b"], "a/b"),
    ],
)
def test_what_cannot_be_followed_is_told_in_a_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "empty.jsonl")
    code, output = follow(*arguments)
    assert code == 2
    assert said in output


def test_help_has_an_example() -> None:
    code, said = follow("--help")
    assert code == 0
    assert "holter follow logs/run-7" in said
