"""What the stack asks of a component."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Report = Callable[[str], None]
"""Takes a few words on what a component is doing now."""

Change = Literal["unchanged", "started", "restarted"]
State = Literal["up", "starting", "down"]


@dataclass(frozen=True)
class Status:
    """What ``status`` shows of a component."""

    name: str
    state: State
    detail: str = ""
    pid: int | None = None
    port: int | None = None
    uptime_seconds: float | None = None
    memory_bytes: int | None = None


class Component(Protocol):
    """A process or a piece of set-up. Components that do not need each other are ensured at the same time."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the components that must be ready first."""

    @property
    def port_names(self) -> tuple[str, ...]:
        """The ports it listens on, the one to show first."""

    @property
    def fresh_port_names(self) -> tuple[str, ...]:
        """Those of them that must be new ones at each start."""

    @property
    def is_process(self) -> bool:
        """Whether there is something that ``down`` stops."""

    def is_running(self) -> bool:
        """Whether its process holds its ports now."""

    def ensure(self, report: Report) -> Change:
        """Returns when the component is ready; changes nothing where it already is.

        Raises:
            StackError: it does not become ready.
        """

    def stop(self) -> None:
        """Leaves nothing running; harmless where nothing runs."""

    def status(self) -> Status: ...
