"""Updates that jumped to a multiple of what they were, though neither the learning rate nor the gradients did.

An optimizer makes its step of the rate and of the last gradients. Where the steps grow at once, stay so, and none of
these did, something has changed them that the run does not report: a rate that was set behind its schedule, moments
that are wrong. Held against what rate and gradients explain this is plain to see also where the noise of a whole
warm-up hides it. A run that reports no rate is not judged.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import NamedTuple

from msgspec import Struct, structs

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.stats import ordered
from holter.pipeline.core.stats.rolling import MAD_TO_SD
from holter.schemas.telemetry import UPDATE_NORM

RULE = "update_norm unexplained pair"
_NUM_KEPT = 48
_NUM_REFERENCE = 24
_REFRESH_EVERY = 8
_PUSH_DECAY = 0.81
"""Of squared norms: a momentum of .9 over gradients of random directions."""
_MOST_GRAD = 1e150
_MOST_LOG = 100.0
_ROW = struct.Struct("<q3d")


@dataclass(frozen=True)
class UnexplainedUpdateSettings:
    ratio: float = 2.0
    """To the median of the last 24 updates, after what explains a part of it."""
    scales: float = 4.5
    """The same in scales of their own noise."""
    separation: float = 1.25
    """To the largest of the last 48."""
    num_records: int = 3
    """In a row."""
    max_held: int = 200
    """After so many records the level is a new one."""


class UnexplainedUpdateState(Struct):
    rows: bytes = b""
    """Packed while stored."""
    high: bytes = b""
    push: float = 0.0
    limit: float = math.inf
    num_rows: int = 0
    is_open: bool = False
    onset_step: int = 0
    num_held: int = 0
    num_low: int = 0


class _Row(NamedTuple):
    """``push`` is the square of what the last gradients together would move, 0 where none are known."""

    step: int
    update: float
    rate: float
    push: float


class UnexplainedUpdates:
    """Takes the finite update norms of a run.

    >>> updates, calm = UnexplainedUpdates(UnexplainedUpdateSettings()), [1.0, 1.1, 0.9, 1.05]
    >>> found = [updates.update(step, calm[step % 4], 1e-3, None) for step in range(40)]
    >>> found += [updates.update(step, 3.0, 1e-3, None) for step in range(40, 43)]
    >>> [item and (item.onset_step, round(item.score, 1)) for item in found[-4:]]
    [None, None, None, (40, 2.9)]
    """

    def __init__(self, settings: UnexplainedUpdateSettings, state: UnexplainedUpdateState | None = None) -> None:
        self._settings = settings
        self.restart(state)

    def restart(self, state: UnexplainedUpdateState | None = None) -> None:
        """Another run, or what was stored of one."""
        kept = state or UnexplainedUpdateState()
        self._state = structs.replace(kept, rows=b"", high=b"")
        self._rows = deque(_unpacked(kept.rows), _NUM_KEPT)
        self._high = _unpacked(kept.high)

    def stored(self) -> UnexplainedUpdateState:
        return structs.replace(self._state, rows=_packed(self._rows), high=_packed(self._high))

    def update(self, step: int, norm: float, rate: float, grad: float | None) -> Evidence | None:
        """Takes one record; ``rate`` is the last one reported, 0 where none was.

        Returns:
            Evidence at every record at which the updates are too large, from the third in a row on.
        """
        if not (norm > 0.0 and rate > 0.0):
            return None
        state = self._state
        if grad is not None and 0.0 <= grad < math.inf:
            state.push = _PUSH_DECAY * state.push + min(grad, _MOST_GRAD) ** 2
        row = _Row(step, norm, rate, state.push)
        if norm < state.limit and not self._high and not state.is_open:
            self._keep(row)
            return None
        return self._look(row)

    def settle(self) -> None:
        """An incident has ended: updates that are high still are the new level."""
        if self._state.is_open:
            self._begin_level()

    def rewind(self, step: int) -> None:
        while self._rows and self._rows[-1].step > step:
            self._rows.pop()
        state = self._state
        state.push = self._rows[-1].push if self._rows else 0.0
        state.is_open, state.num_held, state.num_low = False, 0, 0
        self._high.clear()
        self._refresh()

    def _keep(self, row: _Row) -> None:
        self._rows.append(row)
        self._state.num_rows += 1
        if not self._state.num_rows % _REFRESH_EVERY:
            self._refresh()

    def _refresh(self) -> None:
        is_known = len(self._rows) >= _NUM_REFERENCE
        self._state.limit = self._settings.ratio * median(row.update for row in self._last()) if is_known else math.inf

    def _last(self) -> list[_Row]:
        return list(islice(reversed(self._rows), _NUM_REFERENCE))

    def _look(self, row: _Row) -> Evidence | None:
        state = self._state
        excess = self._excess(row)
        if state.is_open:
            return self._hold(row, excess)
        if excess < max(self._settings.ratio, self._unusual()):
            self._release()
            self._keep(row)
            return None
        self._high.append(row)
        if len(self._high) < self._settings.num_records:
            return None
        state.is_open, state.onset_step = True, self._high[0].step
        return self._evidence(row, excess)

    def _excess(self, row: _Row) -> float:
        """The update over its level and what the growth of rate and gradients explains; 0 where it is hardly larger
        than one that was kept. Gradients that grow later are an effect and explain nothing.
        """
        last = self._last()
        if len(last) < _NUM_REFERENCE:
            return 0.0
        explained = max(1.0, row.rate / median(kept.rate for kept in last))
        if not self._state.is_open:
            if row.update < self._settings.separation * max(kept.update for kept in self._rows):
                return 0.0
            push = median(kept.push for kept in last)
            explained *= math.sqrt(max(1.0, row.push / push)) if push > 0.0 else 1.0
        return row.update / median(kept.update for kept in last) / explained

    def _unusual(self) -> float:
        """The least that an excess must be by the noise of updates."""
        scale = MAD_TO_SD * ordered.median_absolute_deviation(sorted(math.log(row.update) for row in self._last()))
        return math.exp(min(_MOST_LOG, self._settings.scales * scale))

    def _hold(self, row: _Row, excess: float) -> Evidence | None:
        """What is high is not learned; three records in a row that are not end it."""
        state, settings = self._state, self._settings
        state.num_held += 1
        if state.num_held >= settings.max_held:
            self._begin_level()
            return None
        if excess >= settings.ratio:
            state.num_low = 0
            return self._evidence(row, excess)
        state.num_low += 1
        if state.num_low >= settings.num_records:
            self._high.clear()
            state.is_open, state.num_held, state.num_low = False, 0, 0
        return None

    def _release(self) -> None:
        """What was high for a record or two was nothing."""
        for row in self._high:
            self._keep(row)
        self._high.clear()

    def _begin_level(self) -> None:
        self.restart(UnexplainedUpdateState(push=self._state.push))

    def _evidence(self, row: _Row, excess: float) -> Evidence:
        least, level = self._settings.ratio, row.update / excess
        return Evidence(
            "update_explosion", UPDATE_NORM, row.update, level, excess, least, "warning", self._state.onset_step, RULE,
            excess / least,
        )  # fmt: skip


def _packed(rows: deque[_Row] | list[_Row]) -> bytes:
    return b"".join(_ROW.pack(*row) for row in rows)


def _unpacked(raw: bytes) -> list[_Row]:
    return [_Row(*row) for row in _ROW.iter_unpack(raw)]
