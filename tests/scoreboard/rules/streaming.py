"""A rule that sees one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.rule import Event


class Verdict(NamedTuple):
    """What a rule says of a record, and what its authors do then."""

    kind: str
    action: str


class Watcher(Protocol):
    """State of one run. A missing metric is None."""

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None: ...


@dataclass(frozen=True)
class StreamingRule:
    """Each record that the watcher objects to is an event of its own: these rules know no incidents."""

    name: str
    start: Callable[[], Watcher]

    def events(self, records: Sequence[StepRecord]) -> list[Event]:
        watcher = self.start()
        verdicts = (watcher.update(record.values.get(LOSS), record.values.get(GRAD_NORM)) for record in records)
        return [Event(row, verdict.kind, verdict.action) for row, verdict in enumerate(verdicts) if verdict]
