"""Wrong usage ends with 2, what cannot be done with 1, both in a line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli.main import app
from holter.pipeline.cli.stack import notebook_example

COMMANDS = [["up"], ["down"], ["status"], ["migrate"], ["topics", "create"],
            ["jobs", "submit"], ["jobs", "list"], ["jobs", "stop"], ["replay"], ["fit"], ["sync"], ["schema"],
            ["hold"], ["release"], ["approve"], ["reject"], ["act"], ["policy"]]  # fmt: skip


def run(tmp_path: Path, *arguments: str, **environ: str) -> Result:
    cleared = {"HOLTER_STORE_DSN": "", "KAFKA_BOOTSTRAP_SERVERS": "", "HOLTER_TOPIC_PREFIX": ""}
    environment = {**cleared, "COLUMNS": "200", "HOLTER_HOME": str(tmp_path / "home"), **environ}
    return CliRunner().invoke(app, arguments, env=environment)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: list[str]) -> None:
    answer = run(tmp_path, *command, "--help")
    assert answer.exit_code == 0
    assert "Example: " in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--policy", "brave"], "there is no policy 'brave'"),
        (["up", "--without", "zookeeper"], "there is no part 'zookeeper'"),
        (["topics", "create"], "name a Kafka"),
        (["topics", "create", "--bootstrap", "k:1", "--prefix", "a.b"], "topic prefix 'a.b'"),
        (["migrate"], "name a store"),
        (["migrate", "--dsn", "redis://x"], "must look like clickhouse://"),
        (["jobs", "list"], "no local stack is known here"),
        (["jobs", "submit", "nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_said(tmp_path: Path, arguments: list[str], said: str) -> None:
    answer = run(tmp_path, *arguments)
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_a_home_that_cannot_work_is_refused(tmp_path: Path) -> None:
    answer = run(tmp_path, "up", HOLTER_HOME=str(tmp_path / "my home"))
    assert answer.exit_code == 1
    assert "choose another --home" in answer.stderr


def test_a_missing_java_is_named_before_anything_is_started(tmp_path: Path) -> None:
    answer = run(tmp_path, "up", PATH=str(tmp_path), JAVA_HOME="")
    assert answer.exit_code == 1
    assert "install a JDK 17" in answer.stderr
    assert not (tmp_path / "home").exists()


def test_status_and_down_of_a_home_that_never_was(tmp_path: Path) -> None:
    assert run(tmp_path, "status").exit_code == 1
    down = run(tmp_path, "down")
    assert (down.exit_code, down.stderr) == (0, "Holter was not up.\n")
    assert not (tmp_path / "home").exists()


def test_the_notebook_example_is_three_lines() -> None:
    assert len(notebook_example("clickhouse://a:b@127.0.0.1:1/holter").splitlines()) == 3
