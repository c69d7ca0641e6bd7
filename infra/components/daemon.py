"""A component that is one process of ours."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from holter.infra import process
from holter.infra.components.component import Change, Report, State, Status
from holter.infra.context import StackContext
from holter.infra.errors import ComponentFailed
from holter.infra.logs import rotate, size_bytes, tail
from holter.infra.process import ProcessIdentity
from holter.infra.state import ProcessRecord

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Launch:
    """How a process is started.

    The fingerprint, by which a process of other settings is told apart, holds all but the environment: ``facts`` are
    what of the environment must be in it too.
    """

    command: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def fingerprint(self) -> str:
        content = [self.command, self.facts, sorted((str(path), text) for path, text in self.files.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


class Daemon(ABC):
    """Keeps one process as its :class:`Launch` says.

    It is started when missing, and replaced when it hangs or its launch has changed. Its pid is on disk before
    readiness is awaited, so that a ``down`` after a crash of ``up`` finds it.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    port_names: ClassVar[tuple[str, ...]] = ()
    fresh_port_names: ClassVar[tuple[str, ...]] = ()
    is_process: ClassVar[bool] = True
    start_deadline_seconds: ClassVar[float] = 90.0
    stop_deadline_seconds: ClassVar[float] = 10.0
    hung_after_seconds: ClassVar[float] = 15.0

    def __init__(self, context: StackContext) -> None:
        self.context = context
        self._child: subprocess.Popen[bytes] | None = None
        self._log_begins_at = 0

    @abstractmethod
    def launch(self) -> Launch:
        """The command, from the settings and the ports in the state."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it does its work now; called often, never raises."""

    def prepare(self, report: Report) -> None:  # noqa: B027  (most have nothing to do here)
        """Work before a start."""

    def on_ready(self) -> None:  # noqa: B027  (most have nothing to do here)
        """Writes its address into the state."""

    def detail(self) -> str:
        """What else ``status`` shows of it while it is up."""
        return ""

    @property
    def log(self) -> Path:
        return self.context.layout.log(self.name)

    def is_running(self) -> bool:
        return self._identity() is not None

    def ensure(self, report: Report) -> Change:
        launch = self.launch()
        change: Change = "started"
        if self.is_running():
            if self._is_as(launch) and self._comes_up(report):
                self.on_ready()
                return "unchanged"
            report("replacing")
            self.stop()
            change = "restarted"
        elif self._record() is not None:
            change = "restarted"
        self._start(launch, report)
        return change

    def stop(self) -> None:
        identity = self._identity()
        if identity is not None:
            process.stop(identity, self.stop_deadline_seconds)
        self.context.state_file.forget_process(self.name)

    def status(self) -> Status:
        identity = self._identity()
        port = self.context.state().ports.get(self.port_names[0]) if self.port_names else None
        usage = process.usage(identity) if identity else None
        if identity is None or usage is None:
            return Status(self.name, "down", detail=f"log: {self.log}", port=port)
        is_up = self.is_ready()
        state: State = "up" if is_up else "starting"
        detail = self.detail() if is_up else f"log: {self.log}"
        return Status(self.name, state, detail, identity.pid, port, usage.uptime_seconds, usage.memory_bytes)

    def _start(self, launch: Launch, report: Report) -> None:
        self.prepare(report)
        for path, text in launch.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        report("starting")
        home = self.context.layout.root
        rotate(self.log)
        self._log_begins_at = size_bytes(self.log)
        self._child = process.spawn(launch.command, launch.environment, self.log, home, home)
        identity = ProcessIdentity.of(self._child.pid)
        record = ProcessRecord(identity.pid, identity.created, launch.fingerprint)
        self.context.state_file.record_process(self.name, record)
        self._await_ready(identity)
        self.on_ready()

    def _await_ready(self, identity: ProcessIdentity) -> None:
        deadline = time.monotonic() + self.start_deadline_seconds
        while not self.is_ready():
            if not identity.is_alive():
                raise self._failure("ended while starting")
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready within {self.start_deadline_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _failure(self, reason: str) -> ComponentFailed:
        return ComponentFailed(self.name, reason, self.log, tail(self.log, since_byte=self._log_begins_at))

    def _comes_up(self, report: Report) -> bool:
        deadline = time.monotonic() + self._patience_seconds()
        while self.is_running() and time.monotonic() < deadline:
            if self.is_ready():
                return True
            report("waiting for an answer")
            time.sleep(_POLL_SECONDS)
        return False

    def _patience_seconds(self) -> float:
        """How long it may stay silent: one that an interrupted ``up`` has just started gets the time of a start."""
        identity = self._identity()
        age_seconds = time.time() - identity.created if identity else 0.0
        return max(self.hung_after_seconds, self.start_deadline_seconds - age_seconds)

    def _is_as(self, launch: Launch) -> bool:
        record = self._record()
        return record is not None and record.fingerprint == launch.fingerprint

    def _record(self) -> ProcessRecord | None:
        return self.context.state().processes.get(self.name)

    def _identity(self) -> ProcessIdentity | None:
        record = self._record()
        if record is None:
            return None
        identity = ProcessIdentity(record.pid, record.created)
        return identity if identity.is_alive() else None
