"""``holter sync`` as a person meets it: what it says, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.bus import BusError
from holter.pipeline.bus.memory import MemoryBus
from holter.pipeline.cli import sync
from holter.pipeline.cli.main import app
from holter.schemas.topics import TELEMETRY
from tests.local.recorders import connect, record
from tests.local.test_recorder import NIGHT, clock, published


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    memory = MemoryBus(lambda: 0)
    monkeypatch.setattr(sync, "KafkaBus", lambda _: memory)
    return memory


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    record([connect(tmp_path / "runs" / "gpt" / "v1%2E2"), *published(NIGHT)], clock())
    record([connect(tmp_path / "runs" / "gpt" / "night"), *published(NIGHT[:5])], clock())
    return tmp_path / "runs"


def run(tmp_path: Path, *arguments: str, **environ: str) -> Result:
    cleared = {"HOLTER_RUNS": "", "HOLTER_HOME": str(tmp_path / "home"), "HOLTER_TOPIC_PREFIX": ""}
    environment = {**cleared, "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "COLUMNS": "200", **environ}
    return CliRunner().invoke(app, ["sync", *arguments], env=environment)


def test_it_says_what_it_sent_and_a_second_time_that_there_is_nothing(
    tmp_path: Path, runs: Path, bus: MemoryBus
) -> None:
    answer = run(tmp_path, str(runs))
    assert answer.exit_code == 0, answer.output
    assert "gpt/night: 5 records sent" in answer.output
    assert f"gpt/v1.2: {len(NIGHT)} records sent" in answer.output
    assert f"{len(NIGHT) + 5} records of 2 runs are in kafka:9092." in answer.output
    assert len(bus.log(TELEMETRY)) == len(NIGHT) + 5
    again = run(tmp_path, str(runs))
    assert (again.exit_code, again.output) == (0, "Nothing to send: 2 runs sent before.\n")


def test_the_folder_comes_from_the_environment(tmp_path: Path, runs: Path, bus: MemoryBus) -> None:
    assert run(tmp_path, HOLTER_RUNS=str(runs / "gpt" / "night")).exit_code == 0
    assert len(bus.log(TELEMETRY)) == 5


def test_where_there_are_no_runs_it_says_what_to_do(tmp_path: Path, bus: MemoryBus) -> None:
    answer = run(tmp_path, str(tmp_path / "empty"))
    assert answer.exit_code == 2
    assert "no recorded runs in" in answer.output
    assert "HOLTER_MODE=local" in answer.output


def test_without_a_kafka_it_says_how_to_name_one(tmp_path: Path, runs: Path, bus: MemoryBus) -> None:
    answer = run(tmp_path, str(runs), KAFKA_BOOTSTRAP_SERVERS="")
    assert answer.exit_code == 2
    assert "name a Kafka" in answer.output


def test_a_broker_that_is_away_is_one_line(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def __init__(self, _: object) -> None: ...

        def publisher(self, _: str) -> Any:
            raise BusError("no Kafka at kafka:9092: it does not answer", retriable=True)

    monkeypatch.setattr(sync, "KafkaBus", Away)
    answer = run(tmp_path, str(runs))
    assert answer.exit_code == 2
    assert answer.output.count("\n") == 1
    assert "no Kafka at kafka:9092" in answer.output
    assert "run `holter sync` again" in answer.output


def test_a_run_that_cannot_be_read_is_said_and_the_others_are_sent(tmp_path: Path, runs: Path, bus: MemoryBus) -> None:
    (runs / "gpt" / "bad").mkdir()
    (runs / "gpt" / "bad" / "records.spool").write_bytes(b"a diary, longer than the magic is")
    answer = run(tmp_path, str(runs))
    assert answer.exit_code == 2
    assert "gpt/bad: left out, " in answer.output
    assert f"{len(NIGHT) + 5} records of 2 runs" in answer.output


def test_help_has_an_example(tmp_path: Path) -> None:
    answer = run(tmp_path, "--help")
    assert answer.exit_code == 0
    assert "Example: holter sync" in answer.output
