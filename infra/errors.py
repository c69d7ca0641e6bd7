"""What goes wrong while a stack is brought up; every message says what to do next."""

from __future__ import annotations

from pathlib import Path


class StackError(Exception):
    """Something the user can act on; the message is one or two plain sentences."""


class ComponentFailed(StackError):
    """A component did not become ready.

    Attributes:
        component: its name.
        log: the file to read.
        last_lines: the end of that file.
    """

    def __init__(self, component: str, reason: str, log: Path, last_lines: list[str]) -> None:
        super().__init__(f"{component} {reason}. Its log: {log}")
        self.component = component
        self.log = log
        self.last_lines = last_lines


class MissingTool(StackError):
    """A program that Holter needs is not installed."""
