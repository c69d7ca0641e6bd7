"""The bus to a recorder: like any other bus, and never a wait for the trainer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holter.pipeline.bus import Bus, BusError
from holter.producers.recorder_bus import RecorderBus, Recording, session_key, spawn_recorder
from holter.schemas.topics import CONTROL, TELEMETRY
from tests.bus.test_contract import DEADLINE_SECONDS, BusContract
from tests.local.recorders import SIGNER, ThreadProcess, entries
from tests.producers.watch import await_, now_ms


def bus_over(folder: Path, *processes: Any) -> RecorderBus:
    """Over these processes, one after the other."""
    waiting = list(processes)
    return RecorderBus(Recording(folder, SIGNER), lambda: waiting.pop(0))


class TestRecorderBus(BusContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> Bus:
        return bus_over(tmp_path, ThreadProcess(now_ms))


def test_what_was_published_is_spooled_when_it_is_acknowledged(tmp_path: Path) -> None:
    bus = bus_over(tmp_path, ThreadProcess(now_ms))
    publisher = bus.publisher("publisher")
    for number in range(100):
        publisher.publish(TELEMETRY, b"p/r", bytes([number]))
    assert publisher.flush(DEADLINE_SECONDS)
    assert [entry.value for entry in entries(tmp_path)] == [bytes([number]) for number in range(100)]
    publisher.close(DEADLINE_SECONDS)


def test_a_recorder_that_takes_nothing_is_ended_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holter.pipeline.bus.child._FULL_SECONDS", 0.02)
    hanging = ThreadProcess(now_ms, listens=False)
    bus = bus_over(tmp_path, hanging, ThreadProcess(now_ms))
    publisher = bus.publisher("publisher")
    with pytest.raises(BusError, match="took nothing") as caught:
        publisher.publish(TELEMETRY, b"p/r", bytes(1_000_000))
    assert caught.value.retriable
    assert hanging.was_killed
    assert not publisher.flush(0.0)
    again = bus.publisher("publisher")
    again.publish(TELEMETRY, b"p/r", b"x")
    assert again.flush(DEADLINE_SECONDS)
    again.close(DEADLINE_SECONDS)


def test_a_recorder_that_cannot_be_started_or_fails_is_said(tmp_path: Path) -> None:
    def refuse() -> Any:
        raise OSError("no such program")

    with pytest.raises(BusError, match="cannot be started: no such program"):
        RecorderBus(Recording(tmp_path), refuse).publisher("publisher")
    (tmp_path / "records.spool").write_bytes(b"a diary, longer than the magic is")
    with pytest.raises(BusError, match="no spool of Holter's"):
        bus_over(tmp_path, ThreadProcess(now_ms)).publisher("publisher")


def test_a_publisher_and_its_readers_end_with_their_recorder(tmp_path: Path) -> None:
    process = ThreadProcess(now_ms)
    bus = bus_over(tmp_path, process)
    publisher, reader = bus.publisher("publisher"), bus.reader([CONTROL], "latest", "reader")
    publisher.close(DEADLINE_SECONDS)
    with pytest.raises(BusError):
        publisher.publish(TELEMETRY, b"p/r", b"x")
    with pytest.raises(BusError, match="gone"):
        reader.poll(DEADLINE_SECONDS)


def test_a_worker_that_was_forked_does_not_keep_the_recorder_alive(tmp_path: Path) -> None:
    process = ThreadProcess(now_ms)
    publisher = bus_over(tmp_path, process).publisher("publisher")
    worker = os.dup(process.stdin.fileno())  # what a fork leaves open
    publisher.close(DEADLINE_SECONDS)
    await_(lambda: not process._thread.is_alive(), "the end")
    os.close(worker)


def test_the_key_is_another_each_time_and_hidden() -> None:
    first, second = session_key(), session_key()
    assert first.key_id != second.key_id
    assert first.secret != second.secret
    assert first.secret.hex() not in repr(Recording(Path(), first))


@pytest.mark.services
def test_a_real_recorder_that_is_killed_is_replaced_and_goes_on(tmp_path: Path) -> None:
    processes: list[Any] = []

    def spawn() -> Any:
        processes.append(spawn_recorder())
        return processes[-1]

    bus = RecorderBus(Recording(tmp_path, SIGNER), spawn)
    publisher, reader = bus.publisher("publisher"), bus.reader([CONTROL], "latest", "reader")
    publisher.publish(TELEMETRY, b"p/r", b"before")
    assert publisher.flush(DEADLINE_SECONDS)
    processes[0].kill()
    with pytest.raises(BusError, match="gone") as caught:
        reader.poll(DEADLINE_SECONDS)
    assert caught.value.retriable
    again = bus.publisher("publisher")
    again.publish(TELEMETRY, b"p/r", b"after")
    assert again.flush(DEADLINE_SECONDS)
    assert [entry.value for entry in entries(tmp_path)] == [b"before", b"after"]
    again.close(DEADLINE_SECONDS)
    assert processes[1].wait(DEADLINE_SECONDS) == 0


@pytest.mark.services
def test_a_real_recorder_ends_with_its_input_and_shows_no_secret(tmp_path: Path) -> None:
    process = spawn_recorder()
    assert isinstance(process, subprocess.Popen)
    assert SIGNER.secret.hex() not in " ".join(map(str, process.args))
    process.stdin.close()
    assert process.wait(DEADLINE_SECONDS) == 0
    process.stdout.close()
