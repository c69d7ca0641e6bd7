"""The rules by which one process is kept, with a small process in place of a broker."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holter.infra import process
from holter.infra.components.daemon import Daemon, Launch
from holter.infra.context import StackContext
from holter.infra.errors import ComponentFailed
from holter.infra.jars import Jars
from holter.infra.settings import StackSettings

pytestmark = pytest.mark.services

_SERVE = "import pathlib, time\nprint('hello')\nwhile True:\n    pathlib.Path('beat').touch()\n    time.sleep(0.02)\n"
_FAIL = "raise SystemExit('no such folder')"


class Beat(Daemon):
    """Touches a file while it is well."""

    name = "beat"
    start_deadline_seconds = 60.0
    stop_deadline_seconds = 60.0
    hung_after_seconds = 60.0
    code = _SERVE
    facts: tuple[str, ...] = ()

    def launch(self) -> Launch:
        (self.context.layout.root / "beat").unlink(missing_ok=True)
        return Launch((sys.executable, "-c", self.code), facts=self.facts, environment=os.environ)

    def is_ready(self) -> bool:
        beat = self.context.layout.root / "beat"
        if not beat.exists():
            return False
        beat.unlink()
        return True

    def _patience_seconds(self) -> float:
        return self.hung_after_seconds


@pytest.fixture
def beat(tmp_path: Path) -> Iterator[Beat]:
    yield Beat(StackContext(StackSettings(home=tmp_path), Jars(tmp_path), {}))
    for stray in process.strays(tmp_path):
        process.kill(stray)


def pid(beat: Beat) -> int:
    return beat.context.state().processes["beat"].pid


def ensure(beat: Beat) -> str:
    return beat.ensure(lambda _: None)


def test_it_is_started_once(beat: Beat) -> None:
    assert ensure(beat) == "started"
    first = pid(beat)
    assert ensure(beat) == "unchanged"
    assert pid(beat) == first


def test_a_later_command_finds_it(beat: Beat) -> None:
    ensure(beat)
    assert Beat(beat.context).is_running()
    assert Beat(beat.context).status().pid == pid(beat)


def test_a_killed_one_is_started_again(beat: Beat) -> None:
    ensure(beat)
    os.kill(pid(beat), signal.SIGKILL)
    assert process.wait_until_gone(process.ProcessIdentity(pid(beat), 0), 60)
    assert ensure(beat) == "restarted"


def test_one_that_hangs_is_replaced(beat: Beat) -> None:
    ensure(beat)
    first = pid(beat)
    os.kill(first, signal.SIGSTOP)
    beat.is_ready()
    beat.hung_after_seconds = 0.3  # type: ignore[misc]
    beat.stop_deadline_seconds = 0.1  # type: ignore[misc]  # a stopped process hears no request
    assert ensure(beat) == "restarted"
    assert pid(beat) != first


def test_one_of_other_settings_is_replaced(beat: Beat) -> None:
    ensure(beat)
    first = pid(beat)
    beat.facts = ("port 2",)
    assert ensure(beat) == "restarted"
    assert pid(beat) != first


def test_an_early_end_is_told_with_the_lines_of_this_start_only(beat: Beat) -> None:
    ensure(beat)
    beat.stop()
    beat.code = _FAIL
    with pytest.raises(ComponentFailed, match=r"beat ended while starting. Its log: .*beat\.log") as failure:
        ensure(beat)
    assert failure.value.last_lines == ["no such folder"]


def test_stop_is_harmless_where_nothing_runs(beat: Beat) -> None:
    beat.stop()
    ensure(beat)
    beat.stop()
    beat.stop()
    assert process.strays(beat.context.layout.root) == []
    assert beat.status().state == "down"
