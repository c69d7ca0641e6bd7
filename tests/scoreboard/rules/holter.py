"""Holter, as ``holter replay`` judges a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.core.steps import StepRecord
from holter.pipeline.replay.judge import judge
from tests.scoreboard.rule import Event


@dataclass(frozen=True)
class Holter:
    name: str = "Holter"
    policy: str = "patient"
    settings: SignalSettings | None = None

    def events(self, records: Sequence[StepRecord]) -> list[Event]:
        return [
            Event(event.row, event.kind, event.action, event.incident, event.p_recover)
            for event in judge(records, self.policy, self.settings)
        ]
