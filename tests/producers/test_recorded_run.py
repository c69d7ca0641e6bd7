"""Local and offline mode as a script meets them: kept in a folder, judged or not, and never in the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holter import producers
from holter.producers import Run
from holter.producers.latch import Permissions
from holter.producers.recorder_bus import RecorderBus, Recording
from holter.producers.run import Beginning, RunSettings
from holter.schemas import Keyring, codec
from holter.schemas.telemetry import Ack, CheckpointSaved, Finished, MetricBatch, RunEvent, Started
from holter.schemas.topics import CONTROL, SIGNALS, TELEMETRY
from tests.local.recorders import SIGNER, ThreadProcess, entries
from tests.producers.watch import await_, now_ms

EFFECTS: frozenset[Any] = frozenset({"nan_guard", "lr_factor", "momentum_reset", "rollback", "skip_range"})
PERMISSIONS = Permissions(EFFECTS, EFFECTS)


def recorded(folder: Path) -> list[Any]:
    return [codec.telemetry.decode(entry.value) for entry in entries(folder) if entry.topic == TELEMETRY.name]


def steps(folder: Path) -> list[int]:
    return [step for each in recorded(folder) if isinstance(each, MetricBatch) for step in each.step_numbers()]


def log(run: Run, first: int, last: int) -> None:
    """Calm values but for a loss that is lost at the last step."""
    for step in range(first, last):
        run.log({"train/loss": 2.0 + 0.01 * (step % 7), "train/grad_norm": 1.0}, step, commit=True)
    run.log({"train/loss": float("nan"), "train/grad_norm": float("inf")}, last, commit=True)


def in_thread(folder: Path, *processes: Any) -> Run:
    waiting = list(processes) or [ThreadProcess(now_ms)]
    bus = RecorderBus(Recording(folder, SIGNER, 1), lambda: waiting.pop(0))
    keyring = Keyring(keys={SIGNER.key_id: SIGNER})
    return Run(RunSettings("p", "r", connect=lambda: bus, keyring=keyring, queue_bound=100))


def test_a_local_run_is_judged_and_its_action_comes_back_verified(tmp_path: Path) -> None:
    run = in_thread(tmp_path)
    run.begin(Beginning(1, PERMISSIONS, checkpoint_every_steps=20))
    for step in range(60):
        run.log({"train/loss": 2.0 + 0.01 * (step % 7), "train/grad_norm": 1.0}, step, commit=True)
    run.event(CheckpointSaved("step-59", 0.01), 59)
    log(run, 60, 200)
    control = run.control
    assert control is not None
    await_(lambda: control.is_armed and control.is_pending, "an action")
    taken = control.take(200)
    assert taken is not None
    run.acknowledge(taken.action, "applied", 200, digest=taken.digest)
    run.finish()
    assert control.health is not None
    assert control.health.checkpoint == "step-59"
    assert run.stats()["num_invalid_control"] == 0
    (ack,) = [each for each in recorded(tmp_path) if isinstance(each, Ack)]
    assert ack.action == taken.action.id
    said = {each.topic for entry in entries(tmp_path) for each in entry.said}
    assert said >= {SIGNALS.name, CONTROL.name}


def test_a_recorder_that_hangs_costs_counted_drops_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holter.producers.run.FLUSH_SECONDS", 0.2)
    run = in_thread(tmp_path, ThreadProcess(now_ms, listens=False))
    for step in range(5000):
        run.log({f"metric/{number}": 1.0 for number in range(10)}, step, commit=True)
    await_(lambda: run.stats()["num_dropped"] > 0, "a drop")
    run.finish()
    assert not run.enabled
    assert len([line for line in caplog.messages if "queue is full" in line]) == 1


@pytest.mark.services
def test_a_recorder_that_is_killed_is_replaced_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holter.producers.sender._FIRST_BACKOFF_SECONDS", 0.02)
    run = producers.init("p", "v1.2", mode="local", runs=tmp_path, environ={})
    folder = tmp_path / "p" / "v1%2E2"
    log(run, 0, 50)
    await_(lambda: run.stats()["num_sent"] >= 2 and run.stats()["num_waiting"] == 0, "all is acknowledged")
    os.kill(_recorder(run), signal.SIGKILL)
    log(run, 51, 100)
    await_(lambda: run.stats()["num_connections"] == 2, "another recorder")
    run.finish()
    assert steps(folder) == list(range(101))
    assert run.stats()["num_dropped"] == 0
    assert [each.seq for each in recorded(folder)] == list(range(len(recorded(folder))))
    assert len([line for line in caplog.messages if "cannot reach" in line]) == 1
    assert str(folder) in caplog.messages[0]


def _recorder(run: Run) -> int:
    """The process id of a run's recorder."""
    assert run._settings.connect is not None
    bus: Any = run._settings.connect()
    return int(bus._child._process.pid)


@pytest.mark.services
def test_an_offline_run_is_kept_and_neither_judged_nor_controlled(tmp_path: Path) -> None:
    run = producers.init("p", "r", environ={"HOLTER_MODE": "offline", "HOLTER_RUNS": str(tmp_path)})
    run.begin(Beginning(1, PERMISSIONS))
    log(run, 0, 150)
    run.finish()
    folder = tmp_path / "p" / "r"
    events = [each.event for each in recorded(folder) if isinstance(each, RunEvent)]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert steps(folder) == list(range(151))
    assert not any(entry.said for entry in entries(folder))
    assert run.control is None


@pytest.mark.services
def test_a_run_that_goes_on_in_another_process_is_one_spool(tmp_path: Path) -> None:
    for first in (0, 10):
        run = producers.init("p", "r", mode="offline", runs=tmp_path, environ={})
        log(run, first, first + 9)
        run.finish()
    folder = tmp_path / "p" / "r"
    assert steps(folder) == list(range(20))
    assert len({each.session for each in recorded(folder)}) == 2


def test_other_ranks_leave_it_to_rank_0(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"HOLTER_MODE": "local", "HOLTER_RUNS": str(tmp_path), "RANK": "1", "WORLD_SIZE": "2"}
    run = producers.init("p", "r", environ=environ)
    assert not run.enabled
    assert not caplog.messages
    assert not list(tmp_path.iterdir())


def test_nothing_is_made_before_the_first_record(tmp_path: Path) -> None:
    run = producers.init("p", "r", mode="local", runs=tmp_path, environ={})
    run.finish()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "ü", "x:y"])
def test_a_run_is_one_folder_below_its_project(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    producers.init(name, name, mode="offline", runs=tmp_path, environ={})
    folder = Path(caplog.messages[0].partition(" in ")[2].partition(";")[0])
    assert folder.parent.parent == tmp_path.resolve()
    assert not folder.name.startswith(".")
