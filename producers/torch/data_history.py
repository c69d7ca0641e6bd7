"""Which batches each recent step consumed, so that steps can be turned into data."""

from __future__ import annotations

from collections import deque

MAX_STEPS = 20_000
MAX_STORED_STEPS = 1_000


class DataHistory:
    """Bounded: of older steps it no longer knows."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, int, int]] = deque(maxlen=MAX_STEPS)
        self._first_index: int | None = None
        self._last_index = -1

    @property
    def next_index(self) -> int:
        """The first batch that was not consumed yet."""
        return self._last_index + 1

    @property
    def last_step(self) -> int | None:
        return self._steps[-1][0] if self._steps else None

    def consume(self, index: int) -> None:
        if self._first_index is None:
            self._first_index = index
        self._last_index = index

    def pass_over(self, index: int) -> None:
        """The batch is behind the run, and no step consumed it."""
        self._last_index = index

    def end_step(self, step: int) -> None:
        if self._first_index is not None:
            self._steps.append((step, self._first_index, self._last_index))
        self._first_index = None

    def consumed_after(self, step: int) -> tuple[int, int] | None:
        """First and last batch index that the steps after ``step`` consumed; None where that is not known."""
        if self._steps and self._steps[0][0] > step + 1:
            return None
        for number, first, _ in self._steps:
            if number > step:
                return first, self._last_index
        return None

    def state(self) -> list[list[int]]:
        return [list(entry) for entry in list(self._steps)[-MAX_STORED_STEPS:]]

    def load(self, state: list[list[int]], next_index: int) -> None:
        """Takes up the history of a checkpoint."""
        self._steps = deque(((step, first, last) for step, first, last in state), maxlen=MAX_STEPS)
        self._first_index, self._last_index = None, next_index - 1
