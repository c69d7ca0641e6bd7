"""What a detector says of a run, and what a detector is to the scoreboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holter.pipeline.core.steps import StepRecord

PASSIVE = frozenset({"", "none", "monitor", "alert", "watch", "wait"})
"""Actions that leave the run alone."""


class Event(NamedTuple):
    """A signal at a 0-based row, made of that row and earlier ones only.

    Of several events of one ``incident`` the first opens it and the others update it; without one, each opens.
    """

    row: int
    kind: str
    action: str = "none"
    incident: str | None = None
    p_recover: float | None = None

    @property
    def acts(self) -> bool:
        return self.action not in PASSIVE


class Rule(Protocol):
    """``name`` is the row's name in the table; ``events`` judges one run from its first record on."""

    @property
    def name(self) -> str: ...

    def events(self, records: Sequence[StepRecord]) -> list[Event]: ...
