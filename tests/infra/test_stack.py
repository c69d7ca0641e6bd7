"""The whole stack in a temporary home: brought up once, hurt, mended, used as a cluster of someone else, taken down."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from holter.infra import process
from holter.infra.components.component import Change
from holter.infra.flink_rest import FlinkRest
from holter.infra.settings import settings_from_env
from holter.infra.stack import Stack
from holter.infra.state import StackState
from holter.pipeline.cli.main import app

pytestmark = [pytest.mark.services, pytest.mark.timeout(480)]

_DAEMONS = ["kafka", "jobmanager", "taskmanager", "store", "loader"]


def run_cli(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200", **environ})


class LiveStack:
    """A stack under test; each call builds it anew, as each command does."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self) -> Stack:
        return Stack(settings_from_env(os.environ, self.home), os.environ, Console(stderr=True))

    def up(self) -> dict[str, Change]:
        return dict(self().up().changes)

    def state(self) -> StackState:
        return self().state()

    def kill(self, name: str) -> None:
        record = self.state().processes[name]
        identity = process.ProcessIdentity(record.pid, record.created)
        process.kill(identity)
        assert process.wait_until_gone(identity, deadline_seconds=60)


@pytest.fixture(scope="module")
def stack(stack: Any) -> Iterator[LiveStack]:
    """That of the session, after everybody else."""
    live = LiveStack(stack.home)
    yield live
    live().down()
    assert process.strays(live.home) == []


@pytest.fixture
def away(tmp_path: Path) -> dict[str, str]:
    """The environment of someone who has no stack of their own."""
    return {"HOLTER_HOME": str(tmp_path / "none")}


def test_everything_is_up_and_listens_on_loopback_only(stack: LiveStack) -> None:
    assert {part.name: part.state for part in stack().status() if part.state != "up"} == {}
    assert sorted(stack.state().processes) == sorted(_DAEMONS)
    assert _listening_addresses(stack.state()) == {"127.0.0.1"}


def test_a_second_up_changes_nothing(stack: LiveStack) -> None:
    before = stack.state()
    assert set(stack.up().values()) == {"unchanged"}
    assert stack.state() == before


def test_status_prints_a_dsn_and_an_example_that_works(stack: LiveStack) -> None:
    document = json.loads(run_cli("status", "--json", HOLTER_HOME=str(stack.home)).stdout)
    assert document["up"] is True
    assert document["store_dsn"] == stack.state().store_dsn
    listed = json.loads(run_cli("sql", "SELECT run FROM runs", "--json", HOLTER_HOME=str(stack.home)).stdout)
    shown = run_cli("status", HOLTER_HOME=str(stack.home))
    assert shown.exit_code == 0
    example = re.findall(r"^(?:import|store).*$", shown.stdout, re.MULTILINE)[-3:]
    namespace: dict[str, object] = {}
    exec("\n".join([*example[:2], f"rows = {example[2]}"]), namespace)
    rows = namespace["rows"]
    assert isinstance(rows, list)
    assert listed
    assert {row["run"] for row in listed} <= {row[1] for row in rows}  # the store goes on loading


def test_what_was_killed_is_mended_and_nothing_else(stack: LiveStack) -> None:
    before = stack.state()
    killed = set(_DAEMONS) - {"jobmanager"}
    for name in killed:
        stack.kill(name)
    assert run_cli("status", HOLTER_HOME=str(stack.home)).exit_code == 1
    assert _changed(stack.up()) == killed
    after = stack.state()
    assert (after.kafka_bootstrap, after.store_dsn) == (before.kafka_bootstrap, before.store_dsn)
    assert (after.watch_job_id, after.issuer_epoch) == (before.watch_job_id, before.issuer_epoch)


def test_a_lost_jobmanager_brings_watch_back_with_its_state(stack: LiveStack) -> None:
    before = stack.state()
    stack.kill("jobmanager")
    assert _changed(stack.up()) == {"jobmanager", "watch"}
    after = stack.state()
    assert after.issuer_epoch > before.issuer_epoch
    assert after.watch_job_id is not None
    assert FlinkRest(str(after.flink_rest)).restored_from(after.watch_job_id) is not None


def test_topics_of_another_prefix_are_shown_then_created(stack: LiveStack, away: dict[str, str]) -> None:
    command = ("topics", "create", "--bootstrap", str(stack.state().kafka_bootstrap), "--prefix", "team_b")
    assert "9 topics would be created" in run_cli(*command, "--dry-run", **away).stdout
    assert "9 topics created" in run_cli(*command, **away).stdout
    again = run_cli(*command, **away)
    assert (again.exit_code, "0 topics created" in again.stdout) == (0, True)


def test_a_second_watch_of_a_prefix_is_refused(stack: LiveStack, away: dict[str, str]) -> None:
    refused = run_cli("jobs", "submit", "watch", *_target(stack), "--keys-file", stack.state().keys_file, **away)
    assert refused.exit_code == 1
    assert "already runs" in refused.stderr


def test_a_job_is_shipped_and_goes_on_from_its_savepoint(
    stack: LiveStack, away: dict[str, str], tmp_path: Path
) -> None:
    rest = str(stack.state().flink_rest)
    submitted = run_cli("jobs", "submit", "signals", *_target(stack), **away)
    assert submitted.exit_code == 0, submitted.stderr
    job_id = submitted.stdout.strip()
    listed = json.loads(run_cli("jobs", "list", "--jobmanager", rest, "--json", **away).stdout)
    assert {job["job_id"]: job["name"] for job in listed}[job_id] == "holter-signals[]"
    folder = f"file://{tmp_path}/savepoints"
    stopped = run_cli("jobs", "stop", "signals", "--jobmanager", rest, "--savepoint", "--to", folder, **away)
    assert stopped.stdout.strip().startswith(f"file:{tmp_path}/savepoints"), stopped.stderr
    resumed = run_cli("jobs", "submit", "signals", *_target(stack), "--from-savepoint", stopped.stdout.strip(), **away)
    assert resumed.exit_code == 0, resumed.stderr
    assert FlinkRest(rest).restored_from(resumed.stdout.strip()) == stopped.stdout.strip()

    kept = run_cli("jobs", "stop", "signals", "--savepoint", HOLTER_HOME=str(stack.home)).stdout.strip()
    found = run_cli("jobs", "submit", "signals", HOLTER_HOME=str(stack.home))
    assert f"signals goes on from {kept.replace('file:', 'file://')}" in found.stderr
    assert FlinkRest(rest).restored_from(found.stdout.strip()) == kept


def test_migrate_brings_a_new_database_to_this_version(stack: LiveStack, away: dict[str, str]) -> None:
    dsn = f"{stack.state().store_dsn}_second"
    assert "nothing was changed" in run_cli("migrate", "--dry-run", HOLTER_STORE_DSN=dsn, **away).stdout
    assert "applied 0001" in run_cli("migrate", HOLTER_STORE_DSN=dsn, **away).stdout


def test_down_leaves_no_process_and_the_next_one_has_nothing_to_do(stack: LiveStack) -> None:
    assert run_cli("down", HOLTER_HOME=str(stack.home)).exit_code == 0
    assert process.strays(stack.home) == []
    assert "was not up" in run_cli("down", HOLTER_HOME=str(stack.home)).stderr


def _changed(changes: dict[str, Change]) -> set[str]:
    return {name for name, change in changes.items() if change != "unchanged"}


def _target(stack: LiveStack) -> tuple[str, ...]:
    state = stack.state()
    return ("--jobmanager", str(state.flink_rest), "--bootstrap", str(state.kafka_bootstrap))


def _listening_addresses(state: StackState) -> set[str]:
    connections = [
        connection
        for record in state.processes.values()
        for connection in psutil.Process(record.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    return {connection.laddr.ip.removeprefix("::ffff:") for connection in connections}
