"""The state file: the addresses of a running stack, and what is needed to find its processes again.

It holds the store's password, so it is readable by its owner only. Other commands (demo, bench, doctor) read it to
find the stack; only ``up`` and ``down`` write it, under the stack's lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from holter.infra.errors import StackError


class ProcessRecord(Struct, frozen=True):
    """One process: a pid alone may be another program's by now, a pid with its start time is not."""

    pid: int
    created: float
    fingerprint: str


class StackState(Struct, frozen=True, omit_defaults=False):
    """What is known of a stack; an address is None until its component has been started once."""

    version: Literal[1] = 1
    prefix: str = ""
    policy: str | None = None
    keys_file: str = ""
    issuer_epoch: int = 0
    kafka_bootstrap: str | None = field(default=None, name="kafka.bootstrap")
    flink_rest: str | None = field(default=None, name="flink.rest")
    store_dsn: str | None = field(default=None, name="store.dsn")
    watch_job_id: str | None = field(default=None, name="watch.job_id")
    watch_fingerprint: str | None = field(default=None, name="watch.fingerprint")
    without: tuple[str, ...] = ()
    ports: dict[str, int] = {}
    processes: dict[str, ProcessRecord] = {}


class StateFile:
    """Reads and replaces the state of one home; safe to use from the threads that start components."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def read(self) -> StackState:
        """The stored state, or an empty one where nothing was ever started.

        Raises:
            StackError: the file is not one of ours.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=StackState)
        except FileNotFoundError:
            return StackState()
        except msgspec.MsgspecError as error:
            raise StackError(f"{self._path} is damaged ({error}): remove it, then run `holter down`") from None

    def update(self, change: Callable[[StackState], StackState]) -> StackState:
        """Replaces the state by what ``change`` makes of it; returns the new one."""
        with self._lock:
            state = change(self.read())
            write_private(self._path, msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
            return state

    def set(self, **fields: object) -> StackState:
        """Replaces single fields."""
        return self.update(lambda state: msgspec.structs.replace(state, **fields))

    def record_process(self, name: str, record: ProcessRecord) -> None:
        self.update(lambda state: msgspec.structs.replace(state, processes={**state.processes, name: record}))

    def forget_process(self, name: str) -> None:
        self.update(lambda state: msgspec.structs.replace(state, processes=_without(state.processes, name)))


def write_private(path: Path, content: bytes) -> None:
    """Replaces a file in one step, readable by its owner only: a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _without(records: dict[str, ProcessRecord], name: str) -> dict[str, ProcessRecord]:
    return {key: record for key, record in records.items() if key != name}
