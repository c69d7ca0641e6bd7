from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from holter.infra.errors import StackError
from holter.infra.state import ProcessRecord, StackState, StateFile, write_private


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "home" / "state.json")


def test_a_home_where_nothing_was_started_has_an_empty_state(file: StateFile) -> None:
    assert file.read() == StackState()


def test_addresses_are_stored_under_the_names_that_others_read(file: StateFile, tmp_path: Path) -> None:
    file.set(kafka_bootstrap="127.0.0.1:1", flink_rest="127.0.0.1:2", store_dsn="clickhouse://", watch_job_id="j")
    stored = json.loads((tmp_path / "home" / "state.json").read_text())
    names = ("kafka.bootstrap", "flink.rest", "store.dsn", "watch.job_id", "prefix", "keys_file", "issuer_epoch")
    assert set(names) <= set(stored)
    assert stored["kafka.bootstrap"] == "127.0.0.1:1"


def test_only_the_owner_can_read_it(file: StateFile, tmp_path: Path) -> None:
    file.set(store_dsn="clickhouse://holter:secret@127.0.0.1:1/holter")
    assert stat.S_IMODE((tmp_path / "home" / "state.json").stat().st_mode) == 0o600


def test_processes_are_recorded_and_forgotten(file: StateFile) -> None:
    file.record_process("kafka", ProcessRecord(1, 2.0, "f"))
    file.record_process("store", ProcessRecord(3, 4.0, "g"))
    file.forget_process("kafka")
    file.forget_process("never started")
    assert file.read().processes == {"store": ProcessRecord(3, 4.0, "g")}


def test_no_update_of_several_threads_is_lost(file: StateFile) -> None:
    names = [f"component-{number}" for number in range(16)]
    threads = [threading.Thread(target=file.record_process, args=(name, ProcessRecord(1, 2.0, name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(file.read().processes) == sorted(names)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("{")
    with pytest.raises(StackError, match=r"state\.json is damaged"):
        StateFile(path).read()


def test_a_leftover_of_a_crash_does_not_stop_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / ".file.new").write_text("half")
    write_private(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]
