"""What a run in local mode left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holter.pipeline.local.spool import SpoolReader
from holter.schemas import codec
from holter.schemas.signals import Signal
from holter.schemas.telemetry import Ack, RunEvent, Started, Telemetry
from holter.schemas.topics import SIGNALS, TELEMETRY


@dataclass
class Story:
    """What a run said of itself, and the signals that were said of it."""

    telemetry: list[Telemetry]
    signals: list[Signal]

    def started(self) -> Started:
        return next(
            each.event for each in self.telemetry if isinstance(each, RunEvent) and isinstance(each.event, Started)
        )

    def answers(self) -> list[str]:
        return [each.status for each in self.telemetry if isinstance(each, Ack)]

    def effects(self) -> set[str]:
        """What was really applied."""
        return {report.effect for each in self.telemetry if isinstance(each, Ack) for report in each.effects}


def read_story(project: Path) -> Story:
    """The only run in a project's folder."""
    (run,) = project.iterdir()
    entries = list(SpoolReader(run / "records.spool"))
    telemetry = [codec.telemetry.decode(entry.value) for entry in entries if entry.topic == TELEMETRY.name]
    said = [codec.signals.decode(each.value) for entry in entries for each in entry.said if each.topic == SIGNALS.name]
    return Story(telemetry, said)
