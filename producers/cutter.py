"""From logged values to records: merges the values of a step and decides where a record ends.

A loop slower than the linger gets one record a step, at once. A faster one gets records of many steps; what lies
open when such a loop pauses is cut by the sender after the linger (:meth:`Cutter.cut_stale`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from holter.producers.notices import Notices
from holter.producers.outbox import Outbox
from holter.producers.records import BatchFacts, CutBatch, Origin, StepRow, valid_step
from holter.schemas.bounds import MAX_STEPS
from holter.schemas.telemetry import Ack, Event, RunEvent

LINGER_SECONDS = 0.02
_MAX_PENDING_STEPS = 64
_MAX_BATCH_BYTES = 192 * 1024  # estimated; leaves room for the header below the limit of 256 KiB


class Cutter:
    """Thread-safe. The lock is held for list operations only, never over I/O, encoding or a wait."""

    def __init__(
        self,
        origin: Origin,
        outbox: Outbox,
        notices: Notices,
        clock_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self.origin = origin
        self.facts = BatchFacts()
        self.last_step = 0
        self.step_in_progress: int | None = None
        """What values without a step belong to, where someone counts steps; else every call is a step of its own."""
        self._outbox = outbox
        self._notices = notices
        self._clock_ms = clock_ms
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seq = 0
        self._done_step = -1
        self._pending: dict[int, dict[str, Any]] = {}
        self._rows: list[StepRow] = []
        self._open_facts = self.facts
        self._num_bytes = 0
        self._names: set[str] = set()
        self._last_row_at = -1e9
        self._opened_at = 0.0

    def log(self, metrics: Mapping[str, Any], step: int | None = None, *, commit: bool = False) -> None:
        """Adds values to a step. It is handed over with ``commit``, or when a higher step comes.

        Where a guard counts the steps only :meth:`log_step` hands over, since its own values come last.
        """
        if step is None:
            step = self.step_in_progress
            if step is None:
                step, commit = self._done_step + 1, True
        elif not valid_step(step):
            self._notices.warn("bad_step", f"step {step!r} is not a count; its values are left out")
            return
        with self._lock:
            values = self._values_of(step)
            if values is not None:
                values.update(metrics)
                if commit and self.step_in_progress is None:
                    self._close_through(step)

    def log_step(self, metrics: Mapping[str, Any], step: int, ts_ms: int, applied: bool, facts: BatchFacts) -> None:
        """A guard's whole step, merged with what was logged for it before, and handed over."""
        with self._lock:
            self.facts = facts
            values = self._values_of(step)
            if values is not None:
                values.update(metrics)
                self._close_through(step, ts_ms, applied)

    def event(self, event: Event, step: int | None = None) -> None:
        with self._lock:
            self._cut_rows()
            origin = self.origin
            self._outbox.put(
                RunEvent(
                    project=origin.project,
                    run=origin.run,
                    attempt=origin.attempt,
                    rank=origin.rank,
                    session=origin.session,
                    seq=self._next_seq(),
                    step=self.last_step if step is None else step,
                    ts=self._clock_ms(),
                    event=event,
                )
            )

    def acknowledge(self, ack: Callable[[Origin, int, int], Ack]) -> None:
        """``ack`` makes the record of an origin, a seq and a time."""
        with self._lock:
            self._cut_rows()
            self._outbox.put(ack(self.origin, self._next_seq(), self._clock_ms()))

    def begin_attempt(self, origin: Origin, last_step: int) -> None:
        """Hands over all that is open and counts anew, from ``last_step`` on.

        What was logged before the first attempt is kept for it.
        """
        with self._lock:
            if self._seq:
                self._close_all()
            self.origin = origin
            self._seq = 0
            self._done_step, self.last_step = last_step, max(0, last_step)
            if self.step_in_progress is not None:
                self.step_in_progress = last_step + 1

    def finish(self) -> None:
        with self._lock:
            self._close_all()

    def cut_stale(self) -> float | None:
        """Cuts rows that have waited for the linger; the seconds until some will have, None when none wait."""
        if not self._rows:
            return None
        with self._lock:
            if not self._rows:
                return None
            left = self._opened_at + LINGER_SECONDS - self._monotonic()
            if left > 0:
                return left
            self._cut_rows()
            return None

    def _values_of(self, step: int) -> dict[str, Any] | None:
        values = self._pending.get(step)
        if values is not None:
            return values
        if step <= self._done_step or len(self._pending) >= _MAX_PENDING_STEPS:
            self._notices.warn("late_values", f"values of step {step} came after it was handed over and are left out")
            return None
        if self._pending and self.step_in_progress is None:
            self._close_through(step - 1)
        values = self._pending[step] = {}
        self.last_step = max(self.last_step, step)
        return values

    def _close_through(self, step: int, ts_ms: int | None = None, applied: bool = True) -> None:
        """Hands over all steps up to this one; ``ts_ms`` and ``applied`` are of the last."""
        now_ms = self._clock_ms() if ts_ms is None else ts_ms
        if len(self._pending) == 1 and step in self._pending:
            self._close_step(step, now_ms, applied)
            return
        for number in sorted(number for number in self._pending if number <= step):
            self._close_step(number, now_ms, applied if number == step else True)

    def _close_step(self, step: int, ts_ms: int, applied: bool) -> None:
        row = StepRow(step, ts_ms, self._pending.pop(step), applied)
        self._done_step = step
        now = self._monotonic()
        is_slow = now - self._last_row_at >= LINGER_SECONDS
        self._last_row_at = now
        if is_slow:
            self._cut_rows()
            self._outbox.put(CutBatch(self.origin, self._next_seq(), self.facts, (row,)))
            return
        self._add(row, now)
        if len(self._rows) == MAX_STEPS or now - self._opened_at >= LINGER_SECONDS:
            self._cut_rows()
        elif len(self._rows) == 1:
            self._outbox.wake()  # the sender has to watch over the linger now

    def _add(self, row: StepRow, now: float) -> None:
        num_bytes = 16 + 10 * len(row.values)
        if self._rows and (self._open_facts is not self.facts or self._num_bytes + num_bytes > _MAX_BATCH_BYTES):
            self._cut_rows()
        if not self._rows:
            self._open_facts, self._opened_at = self.facts, now
            self._num_bytes, self._names = 0, set()
        if not row.values.keys() <= self._names:
            self._num_bytes += sum(len(str(name)) for name in row.values.keys() - self._names)
            self._names.update(row.values)
        self._rows.append(row)
        self._num_bytes += num_bytes

    def _cut_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._outbox.put(CutBatch(self.origin, self._next_seq(), self._open_facts, rows))

    def _close_all(self) -> None:
        if self._pending:
            self._close_through(max(self._pending))
        self._cut_rows()

    def _next_seq(self) -> int:
        seq = self._seq
        self._seq = seq + 1
        return seq
