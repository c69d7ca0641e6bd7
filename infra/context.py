"""What every component of one stack shares."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from holter.infra.errors import StackError
from holter.infra.jars import Jars
from holter.infra.java import find_java
from holter.infra.ports import LOOPBACK
from holter.infra.settings import HomeLayout, StackSettings
from holter.infra.state import StackState, StateFile


@dataclass(frozen=True)
class StackContext:
    """Settings, state, jars and environment of a stack."""

    settings: StackSettings
    jars: Jars
    environ: Mapping[str, str] = field(repr=False)
    state_file: StateFile = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state_file", StateFile(self.layout.state))

    @property
    def layout(self) -> HomeLayout:
        return self.settings.layout

    @cached_property
    def java(self) -> str:
        """Raises:
        MissingTool: there is no Java that will do.
        """
        return find_java(self.environ)

    def state(self) -> StackState:
        return self.state_file.read()

    def port(self, name: str) -> int:
        """Raises:
        StackError: none was ever given to that name.
        """
        port = self.state().ports.get(name)
        if port is None:
            raise StackError(f"no stack was brought up in {self.layout.root}: run `holter up`")
        return port

    def address(self, name: str) -> str:
        return f"{LOOPBACK}:{self.port(name)}"

    def python_environment(self) -> dict[str, str]:
        """The environment of Python children: this interpreter's, also inside a JVM that embeds it."""
        site_packages = sysconfig.get_path("purelib")
        scripts = str(Path(self.settings.python).parent)
        return {
            **self.environ,
            "VIRTUAL_ENV": str(Path(scripts).parent),
            "PATH": os.pathsep.join([scripts, self.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(filter(None, [site_packages, self.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
        }
