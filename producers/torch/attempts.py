"""The attempts of a run, under one number on all ranks."""

from __future__ import annotations

from collections.abc import Callable

from holter.producers.notices import Notices
from holter.producers.torch.lineage import Lineage
from holter.producers.torch.ranks import Ranks
from holter.schemas.telemetry import Parent


class Attempts:
    """Rank 0 makes the number, which is on its disk before anybody uses it; the others record it."""

    def __init__(self, lineage: Lineage, ranks: Ranks, notices: Notices, clock_ms: Callable[[], int]) -> None:
        self.number = 0
        self.parent: Parent | None = None
        self._lineage = lineage
        self._ranks = ranks
        self._notices = notices
        self._clock_ms = clock_ms

    def begin_first(self, step: int, patience: float) -> None:
        """That of this process: it follows the last one of the folder, where there is one."""
        last = self._lineage.last_attempt
        self._begin(None if last is None else Parent(last, step), patience)

    def go_back(self, step: int, patience: float) -> None:
        """The one that follows a rollback."""
        self._begin(Parent(self.number, step), patience)

    def _begin(self, parent: Parent | None, patience: float) -> None:
        self.parent = parent
        own = self._make() if self._ranks.is_lead else 0
        said = self._ranks.gather(str(own).encode(), patience)
        if self._ranks.is_lead:
            self.number = own
        elif said is None:
            self.number = self._make()
        else:
            self.number = int(said[0])
            self._record(self.number)

    def _make(self) -> int:
        try:
            return self._lineage.begin_attempt(self.parent, self._clock_ms())
        except OSError as error:
            self._warn(error)
            return self._lineage.last_attempt or self._clock_ms()

    def _record(self, number: int) -> None:
        try:
            self._lineage.adopt_attempt(number, self.parent)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        self._notices.warn("lineage", f"the attempt is not recorded, it cannot be resumed from: {error}")
