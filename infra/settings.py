"""What a user may choose about a local stack, and where each thing lies in its home folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holter.infra.errors import StackError
from holter.infra.state import StateFile
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET, policy_from_text
from holter.schemas.topics import PREFIX_VARIABLE, TopicNames

DEFAULT_HOME = Path(".holter")


@dataclass(frozen=True)
class StackSettings:
    """The choices of one stack. Two stacks on one machine need two homes and nothing else."""

    home: Path
    prefix: str = ""
    policy: str = DEFAULT_PRESET
    """As :func:`policy_from_text` reads it."""
    without: frozenset[str] = frozenset()
    num_task_slots: int = 4
    checkpoint_interval_seconds: float = 3.0
    kafka_heap_megabytes: int = 256
    jobmanager_heap_megabytes: int = 256
    taskmanager_heap_megabytes: int = 384
    python: str = field(default=sys.executable)

    @property
    def layout(self) -> HomeLayout:
        return HomeLayout(self.home)


@dataclass(frozen=True)
class HomeLayout:
    """Paths in a home folder. Everything of a stack is in it: removing the folder of a stopped stack forgets it."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def keys(self) -> Path:
        return self.root / "keys.json"

    @property
    def credentials(self) -> Path:
        return self.root / "store-credentials"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def savepoints(self) -> Path:
        return self.root / "savepoints"

    def data(self, component: str) -> Path:
        return self.root / "data" / component

    def config(self, component: str) -> Path:
        return self.root / "config" / component

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"


def settings_from_env(
    environ: Mapping[str, str],
    home: Path | None = None,
    without: frozenset[str] = frozenset(),
    policy: str | None = None,
) -> StackSettings:
    """Settings of a home: the arguments win over ``HOLTER_*``, and these over what the stack was brought up with.

    Raises:
        StackError: a variable has a value that cannot be used.
    """
    folder = home_from_env(environ, home)
    known = StateFile(HomeLayout(folder).state).read()
    prefix = environ.get(PREFIX_VARIABLE, known.prefix)
    try:
        TopicNames(prefix)
        slots = int(environ.get("HOLTER_TASK_SLOTS", "4"))
        interval_seconds = float(environ.get("HOLTER_CHECKPOINT_SECONDS", "3"))
    except ValueError as error:
        raise StackError(f"the environment has a value that cannot be used: {error}") from None
    return StackSettings(
        home=folder,
        prefix=prefix,
        policy=_checked_policy(policy or known.policy or DEFAULT_PRESET),
        without=without,
        num_task_slots=slots,
        checkpoint_interval_seconds=interval_seconds,
    )


def _checked_policy(policy: str) -> str:
    try:
        policy_from_text(policy)
    except ValueError as error:
        raise StackError(str(error)) from None
    return policy


def home_from_env(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """The home folder: the argument, else ``HOLTER_HOME``, else ``.holter`` here.

    Raises:
        StackError: its path has characters that Kafka's or Flink's settings take for separators.
    """
    folder = (home or Path(environ.get("HOLTER_HOME") or DEFAULT_HOME)).resolve()
    if re.search(r"[\s,:;]", str(folder)):
        raise StackError(f"{folder} has a space, comma, colon or semicolon in its path: choose another --home")
    return folder
