"""Several learning-rate schedulers in the place of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class SchedulerList:
    """Their states together. Each is stepped by its own loop, never by this."""

    def __init__(self, schedulers: Sequence[Any]) -> None:
        self._schedulers = list(schedulers)

    @classmethod
    def of(cls, schedulers: Sequence[Any]) -> SchedulerList | None:
        """None where there are none."""
        return cls(schedulers) if schedulers else None

    def state_dict(self) -> dict[str, Any]:
        return {str(at): scheduler.state_dict() for at, scheduler in enumerate(self._schedulers)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for at, scheduler in enumerate(self._schedulers):
            scheduler.load_state_dict(state[str(at)])
