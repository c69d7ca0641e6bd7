"""All that a run's earlier scores say of a new one: its tail, its records, the company its high scores keep."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.record import record_from
from holter.pipeline.core.detect.tail import TailHistogram

BLOCK_RECORDS = 8
_HIGH = 3.0
_COMPANY_RECORDS = 3
_WAIT_RECORDS = 4
_FORGETTING_A_BLOCK = 0.999
_FIRST_RECORDS = 24
"""The first records of a run are no measure of the later ones."""


@dataclass(frozen=True)
class RecordSettings:
    max_tail: float = 8.0
    max_forgiven: int = 4
    """So many incidents among a thousand records do not raise the bar for the next."""
    gap_margin: float = 1.1
    single_margin: float = 1.2
    young_margin: float = 0.9
    young_records: float = 400.0
    pair_chance: float = 2e-4
    """The share of records at which noise may make a pair of high scores by itself."""
    prior_company: float = 0.4
    """So many of ten high scores are taken to have company before any are seen."""
    single_rate: float = 5e-3
    joint_rate: float = 2e-2


class RecordState(Struct):
    bins: list[int] = []
    num_scores: int = 0
    tail: float = 1.0
    maxima: bytes = b""
    gaps: bytes = b""
    block_max: float = 0.0
    block_gap: float = 0.0
    pending: float = 0.0
    pending_gap: float = 0.0
    pending_at: int = 0
    num_forgiven: int = 0
    num_high: float = 0.0
    num_company: float = 0.0


class OwnRecord:
    """Scores (in scales) and gaps (as logs, or in the metric's unit) of one view."""

    __slots__ = (
        "_gaps", "_maxima", "_num_company", "_num_forgiven", "_num_high", "_pending", "_pending_at", "_pending_gap",
        "_settings", "block_gap", "block_max", "histogram", "tail",
    )  # fmt: skip

    def __init__(self, settings: RecordSettings, state: RecordState | None = None) -> None:
        kept = state or RecordState()
        self._settings = settings
        self.histogram = TailHistogram(list(kept.bins), kept.num_scores)
        self.tail = kept.tail
        self._maxima, self._gaps = record_from(kept.maxima), record_from(kept.gaps)
        self.block_max, self.block_gap = kept.block_max, kept.block_gap
        self._pending, self._pending_gap, self._pending_at = kept.pending, kept.pending_gap, kept.pending_at
        self._num_forgiven = kept.num_forgiven
        self._num_high, self._num_company = kept.num_high, kept.num_company

    def note(self, score: float, gap: float) -> None:
        """Takes an ordinary score above 1."""
        self.histogram.add_high(score)
        if score > self.block_max:
            self.block_max = score
        if gap > self.block_gap:
            self.block_gap = gap

    def hold_back(self, score: float, gap: float, count: int) -> None:
        """Takes an unusual score, which counts once it is known that no incident begins with it."""
        self._pending = max(self._pending, score)
        self._pending_gap = max(self._pending_gap, gap)
        if score > _HIGH:
            self._num_high += 1.0
            self._num_company += count - self._pending_at <= _COMPANY_RECORDS
            self._pending_at = count

    def forgive(self, is_again: bool) -> None:
        """An incident has opened: its first scores are not the run's own, unless it has many of them."""
        if is_again or self._num_forgiven < self._settings.max_forgiven:
            self._num_forgiven += not is_again
            self._pending = self._pending_gap = 0.0
        else:
            self._commit()

    def end_block(self, count: int) -> None:
        """Eight more records are there."""
        if self._pending and count - self._pending_at > _WAIT_RECORDS:
            self._commit()
        if count > _FIRST_RECORDS:
            self._maxima.add(self.block_max)
            self._gaps.add(self.block_gap)
        self.block_max = self.block_gap = 0.0
        self._num_high *= _FORGETTING_A_BLOCK
        self._num_company *= _FORGETTING_A_BLOCK
        self.histogram.num_scores += BLOCK_RECORDS
        if not count & 31:
            self.tail = min(self._settings.max_tail, self.histogram.factor())
        if not count & 1023:
            self._num_forgiven = 0
            self.histogram.fade()

    def pair_limit(self) -> float:
        """How high one score must be, so that noise makes two of three no more often than ``pair_chance``.

        Where high scores keep company by themselves, in bursts or at levels that last, a pair is worth little more
        than one.
        """
        settings = self._settings
        company = (self._num_company + settings.prior_company) / (self._num_high + 10.0)
        return self._maxima.limit(max(settings.single_rate, settings.pair_chance / company), BLOCK_RECORDS)

    def company(self) -> float:
        """The share of high scores that came right after another one, as if of ten more none had."""
        return self._num_company / (self._num_high + 10.0)

    def single_limit(self, count: int) -> float:
        """More than the largest, by a margin that is wider while there are few records."""
        settings = self._settings
        rare = self._maxima.limit(settings.single_rate, BLOCK_RECORDS)
        young = settings.young_margin * max(0.0, 1.0 - count / settings.young_records)
        return max(rare, (settings.single_margin + young) * self._maxima.largest(1))

    def joint_limit(self) -> float:
        return self._maxima.limit(self._settings.joint_rate, BLOCK_RECORDS)

    def usual_gap(self) -> float:
        """The third largest gap, margin included."""
        return max(1e-12, self._settings.gap_margin * self._gaps.largest(3))

    def chance(self, score: float) -> float:
        """The share of this run's scores that are as high, of those above 3 together."""
        return self.histogram.share_above(min(score, _HIGH))

    def state(self) -> RecordState:
        return RecordState(
            list(self.histogram.bins), self.histogram.num_scores, self.tail, self._maxima.to_bytes(),
            self._gaps.to_bytes(), self.block_max, self.block_gap, self._pending, self._pending_gap, self._pending_at,
            self._num_forgiven, self._num_high, self._num_company,
        )  # fmt: skip

    def _commit(self) -> None:
        self.block_max = max(self.block_max, self._pending)
        self.block_gap = max(self.block_gap, self._pending_gap)
        if self._pending > 1.0:
            self.histogram.add_high(self._pending)
        self._pending = self._pending_gap = 0.0
