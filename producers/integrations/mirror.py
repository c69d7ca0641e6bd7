"""What a script logs to its tracker, logged to its run as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holter.producers.integrations.tracked_names import JUDGED, TrackedNames
from holter.producers.run import Run


class Mirror:
    """Where a ``Guard`` counts the steps, a tracker's values belong to its step in progress, and what the Guard may
    measure itself is not taken from the tracker.

    Args:
        step_name: of the column that holds the step; else it is the tracker's own.
    """

    def __init__(self, run: Run, names: Mapping[str, str] | None, step_name: str | None = None) -> None:
        self._run = run
        self._names = TrackedNames(names)
        self._step_name = step_name
        self.last_step = 0

    def hear(self, row: Mapping[str, Any], step: int, commit: bool) -> None:
        self.last_step = step = int(row.get(self._step_name, step)) if self._step_name else int(step)
        numbers = self._names.numbers({name: row[name] for name in row if name != self._step_name})
        if not self._run.is_driven:
            self._run.log(numbers, step, commit=commit)
        elif own := {name: value for name, value in numbers.items() if name not in JUDGED}:
            self._run.log(own)
