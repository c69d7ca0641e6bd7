"""From logged values to records: merges the values of a step and decides where a record ends.

A loop slower than the linger gets one record a step, at once. A faster one gets records of many steps, cut when the
linger is over. The sender's thread owns it: the training thread only hands over, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from holter.producers.handover import Acknowledged, Begun, CountedStep, Ended, Handover, Happened, Logged, Response
from holter.producers.notices import Notices
from holter.producers.records import BatchFacts, Cut, CutBatch, Origin, StepRow, valid_step
from holter.schemas.bounds import MAX_STEPS
from holter.schemas.telemetry import Ack, RunEvent

LINGER_SECONDS = 0.02
_LINGER_MS = int(LINGER_SECONDS * 1000)
_MAX_PENDING_STEPS = 64
_MAX_BATCH_BYTES = 192 * 1024  # estimated; leaves room for the header below the limit of 256 KiB


class Cutter:
    """``cuts`` are the finished records, each with its ``seq``, oldest first; whoever takes them removes them."""

    def __init__(self, origin: Origin, notices: Notices, monotonic: Callable[[], float]) -> None:
        self.cuts: deque[Cut] = deque()
        self.last_step = 0
        self._origin = origin
        self._notices = notices
        self._monotonic = monotonic
        self._facts = BatchFacts()
        self._counted = False
        self._seq = 0
        self._done_step = -1
        self._pending: dict[int, dict[str, Any]] = {}
        self._last_ts_ms = 0
        self._rows: list[StepRow] = []
        self._open_facts = self._facts
        self._num_bytes = 0
        self._names: set[str] = set()
        self._opened_at = 0.0
        self._last_row_ms = 0

    def take(self, handover: Handover) -> None:
        if isinstance(handover, CountedStep):
            self._step(handover)
        elif isinstance(handover, Logged):
            self._log(handover)
        elif isinstance(handover, Happened):
            self._cut_rows()
            self.cuts.append(self._event(handover))
        elif isinstance(handover, Acknowledged):
            self._cut_rows()
            self.cuts.append(self._ack(handover.response, handover.ts_ms))
        elif isinstance(handover, Begun):
            self._begin(handover)
        else:
            assert isinstance(handover, Ended)
            self._close_all()

    def lose(self, number: int) -> None:
        """That many hand-overs were dropped before they came here: their seqs are spent, so that the gap shows."""
        self._seq += number

    def cut_stale(self) -> float | None:
        """Cuts rows that have waited for the linger; the seconds until some will have, None when none wait."""
        if not self._rows:
            return None
        left = self._opened_at + LINGER_SECONDS - self._monotonic()
        if left > 0:
            return left
        self._cut_rows()
        return None

    def _begin(self, begun: Begun) -> None:
        if self._seq:  # what was logged before the first attempt is kept for it
            self._close_all()
        self._origin, self._counted, self._seq = begun.origin, begun.counted, 0
        self._done_step, self.last_step = begun.last_step, max(0, begun.last_step)

    def _step(self, counted: CountedStep) -> None:
        self._facts = counted.facts
        values = self._values_of(counted.step)
        if values is not None:
            values.update(counted.values)
            self._close_through(counted.step, counted.ts_ms, counted.applied)

    def _log(self, logged: Logged) -> None:
        step = self._done_step + 1 if logged.step is None else logged.step
        if not valid_step(step):
            self._notices.warn("bad_step", f"step {step!r} is not a count; its values are left out")
            return
        values = self._values_of(step)
        if values is None:
            return
        values.update(logged.values)
        self._last_ts_ms = logged.ts_ms
        if (logged.commit or logged.step is None) and not self._counted:
            self._close_through(step, logged.ts_ms)

    def _event(self, happened: Happened) -> RunEvent:
        origin = self._origin
        return RunEvent(
            project=origin.project,
            run=origin.run,
            attempt=origin.attempt,
            rank=origin.rank,
            session=origin.session,
            seq=self._next_seq(),
            step=self.last_step if happened.step is None else happened.step,
            ts=happened.ts_ms,
            event=happened.event,
        )

    def _ack(self, response: Response, ts_ms: int) -> Ack:
        origin = self._origin
        return Ack(
            project=origin.project,
            run=origin.run,
            attempt=origin.attempt,
            rank=origin.rank,
            session=origin.session,
            seq=self._next_seq(),
            step=self.last_step if response.step is None else response.step,
            ts=ts_ms,
            action=response.action,
            action_attempt=response.action_attempt,
            ordinal=response.ordinal,
            status=response.status,
            reason=response.reason[:2000],
            digest=response.digest,
            effects=list(response.effects),
            latency_ms=response.latency_ms,
        )

    def _values_of(self, step: int) -> dict[str, Any] | None:
        values = self._pending.get(step)
        if values is not None:
            return values
        if step <= self._done_step or len(self._pending) >= _MAX_PENDING_STEPS:
            self._notices.warn("late_values", f"values of step {step} came after it was handed over and are left out")
            return None
        if self._pending and not self._counted:
            self._close_through(step - 1, self._last_ts_ms)
        values = self._pending[step] = {}
        self.last_step = max(self.last_step, step)
        return values

    def _close_through(self, step: int, ts_ms: int, applied: bool = True) -> None:
        """Completes all steps up to this one; ``applied`` is of the last."""
        for number in sorted(number for number in self._pending if number <= step):
            self._close_step(StepRow(number, ts_ms, self._pending.pop(number), applied if number == step else True))

    def _close_step(self, row: StepRow) -> None:
        self._done_step = row.step
        is_slow = not 0 <= row.ts_ms - self._last_row_ms < _LINGER_MS
        self._last_row_ms = row.ts_ms
        self._add(row)
        if is_slow or len(self._rows) == MAX_STEPS or self._monotonic() - self._opened_at >= LINGER_SECONDS:
            self._cut_rows()

    def _add(self, row: StepRow) -> None:
        num_bytes = 16 + 10 * len(row.values)
        if self._rows and (self._open_facts != self._facts or self._num_bytes + num_bytes > _MAX_BATCH_BYTES):
            self._cut_rows()
        if not self._rows:
            self._open_facts, self._opened_at = self._facts, self._monotonic()
            self._num_bytes, self._names = 0, set()
        if not row.values.keys() <= self._names:
            self._num_bytes += sum(len(str(name)) for name in row.values.keys() - self._names)
            self._names.update(row.values)
        self._rows.append(row)
        self._num_bytes += num_bytes

    def _cut_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self.cuts.append(CutBatch(self._origin, self._next_seq(), self._open_facts, rows))

    def _close_all(self) -> None:
        if self._pending:
            self._close_through(max(self._pending), self._last_ts_ms)
        self._cut_rows()

    def _next_seq(self) -> int:
        seq = self._seq
        self._seq = seq + 1
        return seq
