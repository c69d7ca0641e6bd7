from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holter.infra import process
from holter.infra.process import ProcessIdentity

pytestmark = pytest.mark.services

_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
_PARENT = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('up', flush=True); time.sleep(600)"
_DEADLINE_SECONDS = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for stray in process.strays(tmp_path):
        process.kill(stray)


def start(home: Path, code: str) -> ProcessIdentity:
    log = home / "log"
    child = process.spawn([sys.executable, "-c", code], os.environ, log, home, home)
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while b"up" not in log.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return ProcessIdentity.of(child.pid)


def test_a_process_is_itself_and_no_other_with_its_pid(home: Path) -> None:
    identity = start(home, _PARENT)
    assert identity.is_alive()
    assert not ProcessIdentity(identity.pid, identity.created - 60).is_alive()


def test_stop_ends_the_whole_group(home: Path) -> None:
    identity = start(home, _PARENT)
    assert len(process.strays(home)) == 2
    assert not process.stop(identity, _DEADLINE_SECONDS)
    assert all(process.wait_until_gone(child, _DEADLINE_SECONDS) for child in process.strays(home))
    assert process.strays(home) == []


def test_what_ignores_the_request_is_killed(home: Path) -> None:
    identity = start(home, _STUBBORN)
    assert process.stop(identity, deadline_seconds=0.2)
    assert not identity.is_alive()


def test_a_killed_process_that_nobody_waited_for_is_not_alive(home: Path) -> None:
    identity = start(home, _STUBBORN)
    os.kill(identity.pid, signal.SIGKILL)
    assert process.wait_until_gone(identity, _DEADLINE_SECONDS)
    assert process.usage(identity) is None


def test_a_child_whose_parent_died_is_found_by_its_mark(home: Path) -> None:
    identity = start(home, _PARENT)
    process.kill(identity)
    assert process.wait_until_gone(identity, _DEADLINE_SECONDS)
    assert len(process.strays(home)) == 1


def test_only_what_belongs_to_no_recorded_process_is_ended(home: Path) -> None:
    recorded, lost = start(home, _PARENT), start(home, _STUBBORN)
    assert process.kill_unrecorded(home, {recorded.pid}) == 1
    assert process.wait_until_gone(lost, _DEADLINE_SECONDS)
    assert len(process.strays(home)) == 2


def test_processes_of_another_home_are_not_ours(home: Path) -> None:
    start(home, _PARENT)
    assert process.strays(home / "other") == []


def test_usage_counts_the_children_in(home: Path) -> None:
    usage = process.usage(start(home, _PARENT))
    assert usage is not None
    assert usage.memory_bytes > 0
    assert 0 <= usage.uptime_seconds < 60


def test_it_does_not_hear_the_terminal(home: Path) -> None:
    identity = start(home, _PARENT)
    assert os.getsid(identity.pid) == identity.pid != os.getsid(0)
