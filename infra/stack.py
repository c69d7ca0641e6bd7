"""The whole stack: brings it up, mends it, takes it down, tells how it is."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from holter.infra import process
from holter.infra.components.component import Change, Component, Status
from holter.infra.components.jars import JarFiles
from holter.infra.components.jobmanager import JobManager
from holter.infra.components.kafka import Kafka
from holter.infra.components.loader import LoaderProcess
from holter.infra.components.store import Store
from holter.infra.components.taskmanager import TaskManager
from holter.infra.components.topics import BrokerTopics
from holter.infra.components.watch import Watch
from holter.infra.context import StackContext
from holter.infra.errors import StackError
from holter.infra.flink_distribution import find_flink
from holter.infra.jars import find_jars
from holter.infra.keys import ensure_key_file
from holter.infra.lock import exclusive
from holter.infra.parallel import reverse, run_in_order
from holter.infra.ports import allot
from holter.infra.progress import Progress, show_progress
from holter.infra.settings import StackSettings
from holter.infra.state import StackState

_LOCK_DEADLINE_SECONDS = 300.0
_SAID = {"unchanged": "already up", "started": "up", "restarted": "up again"}


class ComponentClass(Protocol):
    """A class of components."""

    name: str

    def __call__(self, context: StackContext) -> Component: ...


COMPONENTS: tuple[ComponentClass, ...] = (
    JarFiles,
    Kafka,
    JobManager,
    TaskManager,
    Store,
    BrokerTopics,
    LoaderProcess,
    Watch,
)


class UpFailed(StackError):
    """Some components did not come up.

    Attributes:
        errors: what each raised.
    """

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        super().__init__("; ".join(str(error) for error in errors.values()))
        self.errors = dict(errors)


@dataclass(frozen=True)
class UpReport:
    """What an ``up`` did."""

    changes: Mapping[str, Change]
    state: StackState

    @property
    def changed_anything(self) -> bool:
        return any(change != "unchanged" for change in self.changes.values())


class Stack:
    """One home's stack. ``up`` and ``down`` hold its lock; ``status`` only looks."""

    def __init__(
        self,
        settings: StackSettings,
        environ: Mapping[str, str],
        console: Console,
        classes: Sequence[ComponentClass] = COMPONENTS,
    ) -> None:
        self._console = console
        self._context = StackContext(settings, find_jars(), environ)
        components = [component_class(self._context) for component_class in classes]
        self._components = {c.name: c for c in components if c.name not in settings.without}

    def up(self) -> UpReport:
        """Brings up what is down and leaves alone what is up.

        Raises:
            UpFailed: some of it did not come up; the rest is left running.
        """
        self._check_tools()
        self._prepare_home()
        with self._locked():
            self._write_settings()
            self._end_unrecorded()
            self._allot_ports()
            changes: dict[str, Change] = {}
            with show_progress(self._console, list(self._components)) as progress:
                errors = run_in_order(self._needs(), lambda name: self._ensure(name, progress, changes))
            if errors:
                raise UpFailed(errors)
            return UpReport(changes, self._context.state())

    def down(self) -> int:
        """Stops everything, also what a crashed ``up`` left behind; returns how many processes were stopped."""
        root = self._context.layout.root
        if not root.exists():
            return 0
        with self._locked():
            num_running = len(process.strays(root))
            processes = [name for name, component in self._components.items() if component.is_process]
            with show_progress(self._console, processes) as progress:
                errors = run_in_order(reverse(self._needs()), lambda name: self._stop(name, progress))
            for stray in process.strays(root):
                process.kill(stray)
            if errors:
                raise UpFailed(errors)
            return num_running

    def status(self) -> list[Status]:
        """How each component is, in their order."""
        return [component.status() for component in self._components.values()]

    def state(self) -> StackState:
        return self._context.state()

    @property
    def home(self) -> Path:
        return self._context.settings.home

    def _check_tools(self) -> None:
        """Says what is not installed before anything is started."""
        find_flink()
        _ = self._context.java

    def _write_settings(self) -> None:
        settings = self._context.settings
        known = self._context.state()
        if known.kafka_bootstrap is not None and known.prefix != settings.prefix:
            raise StackError(
                f"the stack in {settings.home} serves the prefix {known.prefix!r}, not {settings.prefix!r}: "
                f"use another --home, or unset HOLTER_TOPIC_PREFIX"
            )
        self._context.state_file.set(
            prefix=settings.prefix,
            policy=settings.policy,
            keys_file=str(settings.layout.keys),
            without=tuple(sorted(settings.without)),
        )

    def _end_unrecorded(self) -> None:
        """What an ``up`` started and could not write down before it was killed would hold ports and data."""
        recorded = {record.pid for record in self._context.state().processes.values()}
        process.kill_unrecorded(self._context.layout.root, recorded)

    def _prepare_home(self) -> None:
        layout = self._context.layout
        for folder in (layout.root, layout.logs, layout.checkpoints, layout.savepoints, layout.data("flink")):
            folder.mkdir(parents=True, exist_ok=True)
        layout.root.chmod(0o700)
        ensure_key_file(layout.keys)

    def _locked(self) -> AbstractContextManager[None]:
        note = "another holter command works on this stack; waiting for it"
        return exclusive(self._context.layout.lock, _LOCK_DEADLINE_SECONDS, lambda: self._console.print(note))

    def _allot_ports(self) -> None:
        """Ports of what runs stay; others are taken anew where someone else listens there by now."""
        idle = [component for component in self._components.values() if not component.is_running()]
        names = [name for component in idle for name in component.port_names]
        fresh = {name for component in idle for name in component.fresh_port_names}
        ports = self._context.state().ports
        known = {name: port for name, port in ports.items() if name not in fresh}
        self._context.state_file.set(ports={**ports, **allot(names, known, random.Random())})

    def _needs(self) -> dict[str, Sequence[str]]:
        return {name: component.needs for name, component in self._components.items()}

    def _ensure(self, name: str, progress: Progress, changes: dict[str, Change]) -> None:
        try:
            change = self._components[name].ensure(lambda what: progress.says(name, what))
        except Exception as error:
            progress.failed(name, str(error))
            raise
        changes[name] = change
        progress.done(name, _SAID[change])

    def _stop(self, name: str, progress: Progress) -> None:
        component = self._components[name]
        if not component.is_process:
            return
        progress.says(name, "stopping")
        component.stop()
        progress.done(name, "down")
