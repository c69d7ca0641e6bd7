"""Processes that outlive the command that started them: spawned in a group of their own, found again, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

HOME_MARK = "HOLTER_STACK_HOME"
"""Environment variable that every process of a stack carries, so that one whose pid was never written down is found."""

_CREATED_TOLERANCE_SECONDS = 1.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class ProcessIdentity:
    """A process as it was started; stays false for a later process with the same pid."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Raises ``psutil.NoSuchProcess`` where there is none."""
        return cls(pid, psutil.Process(pid).create_time())

    def is_alive(self) -> bool:
        """Whether this very process still runs; a dead one that nobody has waited for counts as gone."""
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.created) > _CREATED_TOLERANCE_SECONDS:
                return False
            return bool(process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True)
class Usage:
    """What a process takes, its children included."""

    uptime_seconds: float
    memory_bytes: int


def usage(identity: ProcessIdentity) -> Usage | None:
    """None where the process is gone."""
    try:
        process = psutil.Process(identity.pid)
        family = [process, *process.children(recursive=True)]
        return Usage(time.time() - identity.created, sum(_memory_bytes(member) for member in family))
    except psutil.NoSuchProcess:
        return None


def spawn(
    command: Sequence[str], environment: Mapping[str, str], log: Path, working_directory: Path, home: Path
) -> subprocess.Popen[bytes]:
    """Starts a process that a closing terminal or Ctrl-C does not reach; its output is appended to ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, HOME_MARK: str(home)},
            cwd=working_directory,
            start_new_session=True,
        )


def stop(identity: ProcessIdentity, deadline_seconds: float) -> bool:
    """Asks the process's group to end, and kills it after the deadline; True when it had to be killed."""
    if not identity.is_alive():
        return False
    _signal_group(identity.pid, signal.SIGTERM)
    if wait_until_gone(identity, deadline_seconds):
        return False
    _signal_group(identity.pid, signal.SIGKILL)
    wait_until_gone(identity, deadline_seconds)
    return True


def wait_until_gone(identity: ProcessIdentity, deadline_seconds: float) -> bool:
    """False when it is still there at the deadline."""
    deadline = time.monotonic() + deadline_seconds
    while identity.is_alive():
        if time.monotonic() > deadline:
            return False
        _reap(identity.pid)
        time.sleep(_POLL_SECONDS)
    _reap(identity.pid)
    return True


def strays(home: Path) -> list[ProcessIdentity]:
    """Every live process that carries the mark of this home: also children, and what a crashed ``up`` left behind."""
    return [ProcessIdentity(p.pid, p.create_time()) for p in psutil.process_iter() if _carries_mark(p, str(home))]


def kill_unrecorded(home: Path, recorded: Collection[int]) -> int:
    """Ends the processes of a home that belong to none of the recorded ones; returns their number."""
    unrecorded = [stray for stray in strays(home) if _session(stray.pid) not in recorded]
    for stray in unrecorded:
        kill(stray)
    return len(unrecorded)


def kill(identity: ProcessIdentity) -> None:
    """Ends one process at once."""
    if identity.is_alive():
        with suppress(ProcessLookupError):
            os.kill(identity.pid, signal.SIGKILL)


def _carries_mark(process: psutil.Process, home: str) -> bool:
    try:
        return bool(process.environ().get(HOME_MARK) == home and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _memory_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _signal_group(pid: int, number: signal.Signals) -> None:
    # The pid is the group's id because the process was started as the leader of a session of its own.
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
