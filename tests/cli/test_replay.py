from __future__ import annotations

import functools
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli.main import app
from holter.pipeline.core.detect.learned_model import SHIPPED
from holter.pipeline.fit.learned_file import text_of
from tests.replay.runs import calm, csv_of, dying, falling, spiking


@functools.cache
def logs() -> dict[str, str]:
    return {"calm.csv": csv_of(calm(300)), "spike.csv": csv_of(spiking()), "dead.csv": csv_of(dying())}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with logs of a calm, a spiking and a dying run, and with what is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    for name, text in logs().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "prose.txt").write_text("Nothing to see.\n")
    (tmp_path / "empty.csv").write_text("")
    return tmp_path


def holter_replay(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["replay", *arguments])


def test_incidents_are_told_with_what_to_do(folder: Path) -> None:
    done = holter_replay("dead.csv")
    assert done.exit_code == 0
    assert "csv, 420 rows, steps 0 to 419" in done.stdout
    assert "nan: train/loss is nan" in done.stdout
    assert "policy patient" in done.stdout
    assert "rollback at step 300: a non-finite value may have reached the weights" in done.stdout


def test_a_calm_log_is_one_line(folder: Path) -> None:
    done = holter_replay("calm.csv")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 1
    assert "nothing out of the ordinary" in done.stdout


def test_a_new_level_is_a_notice_and_no_incident(folder: Path) -> None:
    Path("levels.csv").write_text(csv_of(falling()))
    done = holter_replay("levels.csv", "--events", "events", "--report", "page.html")
    assert "nothing out of the ordinary" in done.stdout
    (told,) = [line for line in done.stdout.splitlines() if "left its level" in line]
    assert told.strip().startswith("step 447: train/loss left its level 2.143")
    assert told.strip() in Path("page.html").read_text()
    (event,) = [json.loads(line) for line in Path("events/levels.jsonl").read_text().splitlines()]
    assert (event["kind"], event["action"]) == ("info_level_shift", "monitor")
    (log,) = json.loads(holter_replay("levels.csv", "--json").stdout)["files"]
    assert log["incidents"] == []
    assert [notice["kind"] for notice in log["notices"]] == ["info_level_shift"]


def test_the_learned_detector_is_asked_where_it_is_wanted(folder: Path) -> None:
    assert "looks like the trouble" not in holter_replay("spike.csv").stdout
    Path("keen.json").write_text(text_of(replace(SHIPPED, threshold=-5.0)))
    done = holter_replay("calm.csv", "--learned", "keen.json", "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert {notice["kind"] for notice in file["notices"]} == {"info_learned"}
    assert file["incidents"] == []


def test_a_second_policy_is_told_beside_the_first(folder: Path) -> None:
    done = holter_replay("dead.csv", "--policy", "patient", "--policy", "report")
    assert "patient: rollback at step 300" in done.stdout
    assert "report: " in done.stdout


@pytest.mark.parametrize(
    ("file", "reason"),
    [("empty.csv", "it is empty"), ("prose.txt", "it is no log of a known format"), ("absent.csv", "No such file")],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(folder: Path, file: str, reason: str) -> None:
    done = holter_replay(file)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"holter replay: {file}: {reason}")


def test_the_others_go_on(folder: Path) -> None:
    done = holter_replay("empty.csv", "dead.csv", "calm.csv")
    assert done.exit_code == 2
    assert "rollback at step 300" in done.stdout
    assert "1 incident in 1 of 2 logs" in done.stdout


def test_json_for_machines(folder: Path) -> None:
    done = holter_replay("dead.csv", "prose.txt", "--json")
    document = json.loads(done.stdout)
    (file,) = document["files"]
    assert (file["file"], file["format"], file["num_rows"]) == ("dead.csv", "csv", 420)
    (incident,) = file["incidents"]
    assert incident["kinds"] == ["nan"]
    assert incident["advice"][0]["action"] == "rollback"
    assert document["unusable"][0]["file"] == "prose.txt"


def test_events_are_written_for_every_log(folder: Path) -> None:
    Path("calm.csv").rename("calm.txt")
    Path("zipped.csv.gz").write_bytes(gzip.compress(Path("dead.csv").read_bytes()))
    done = holter_replay("calm.txt", "dead.csv", "zipped.csv.gz", "--events", "out/deep")
    assert done.exit_code == 0
    written = {path.name: path.read_text() for path in Path("out/deep").iterdir()}
    assert written.keys() == {"calm.jsonl", "dead.jsonl", "zipped.jsonl"}
    assert written["calm.jsonl"] == ""
    events = [json.loads(line) for line in written["dead.jsonl"].splitlines()]
    assert (events[0]["row"], events[0]["kind"], events[0]["action"]) == (300, "nan", "rollback")
    assert len({event["incident"] for event in events}) == 1


def test_two_logs_must_not_write_one_file(folder: Path) -> None:
    done = holter_replay("dead.csv", "dead.csv.gz", "--events", "out")
    assert done.exit_code == 2
    assert "would both be dead.jsonl" in done.stderr


def test_a_report_is_written(folder: Path) -> None:
    done = holter_replay("spike.csv", "dead.csv", "--report", "out.html")
    assert done.exit_code == 0
    page = Path("out.html").read_text()
    assert page.count("<section>") == 2
    assert "2 logs</h1>" in page


def test_processes_say_the_same_as_one(folder: Path) -> None:
    files = ("dead.csv", "empty.csv", "spike.csv", "calm.csv")
    assert holter_replay(*files, "--json", "--jobs", "3").stdout == holter_replay(*files, "--json").stdout


def test_columns_may_be_named(folder: Path) -> None:
    text = Path("dead.csv").read_text().replace("step,loss,grad_norm", "when,this,that")
    Path("odd.csv").write_text(text)
    assert "name it with --map loss=NAME" in holter_replay("odd.csv").stderr
    done = holter_replay("odd.csv", "--map", "loss=this,step=when", "--map", "grad_norm=that", "--json")
    assert json.loads(done.stdout)["files"][0]["columns"] == {"train/loss": "this", "train/grad_norm": "that"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--map", "loss"], "is not ROLE=NAME"),
        (["--map", "los=x"], "a column is no 'los'"),
        (["--policy", "hasty"], "there is no policy 'hasty'"),
        (["--format", "xls"], "there is no format 'xls'"),
        (["--report", "absent/out.html"], "there is no folder absent"),
        (["--events", "calm.csv"], "calm.csv is no folder"),
        (["--learned", "none.json"], "none.json: No such file or directory (`shipped` needs no file)"),
        (["--weights", "calm.csv"], "calm.csv is no file of weights"),
        (["--jobs", "0"], "Invalid value for '--jobs'"),
    ],
)
def test_wrong_usage_is_said_before_the_work(folder: Path, arguments: list[str], said: str) -> None:
    done = holter_replay("calm.csv", *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_refused_file_names_its_option(folder: Path) -> None:
    assert "--learned" in holter_replay("calm.csv", "--learned", "calm.csv").stderr


def test_help_has_an_example_and_the_exit_codes() -> None:
    text = holter_replay("--help").stdout
    assert "Example: holter replay" in text
    assert "Exit codes: 0" in text
