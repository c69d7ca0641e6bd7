"""One self-calibrating view of a metric: what every detector of it stands on.

A value is held against the median of the last 15 accepted ones, in a scale that the latest residuals give. Scale,
tail and record are the run's own, so that ugly noise raises the bar by itself and calm noise lowers it. Metrics are
seen as logs, where multiplicative noise is even, as long as they are positive; what is small against the first value
is as good as zero.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from math import log

from holter.pipeline.core.detect.ceiling import BLOCK_RECORDS as CEILING_RECORDS
from holter.pipeline.core.detect.ceiling import Ceiling
from holter.pipeline.core.detect.excursions import FROM as EXCURSION
from holter.pipeline.core.detect.excursions import Excursions, ExcursionSettings
from holter.pipeline.core.detect.levels import Levels
from holter.pipeline.core.detect.own_record import OwnRecord, RecordSettings
from holter.pipeline.core.detect.reading import NOT_MEASURED, Measure, Reading
from holter.pipeline.core.detect.view_state import ViewState, pack, pack_steps, unpack, unpack_steps
from holter.pipeline.core.stats import ordered

_NORMAL_Q75, _NORMAL_Q90 = 0.6745, 1.2816
_SHORT = 15
_NUM_VALUES = 32
_NUM_RESIDUALS = 128
_YOUNG_RECORDS = 256
_FIRST_RECORDS = 24
_FALLS = 3
_LOWEST_LOG_RESIDUAL = -0.7
"""A residual below this, of logs, is a fall and no noise: it counts as this."""
_MAX_DRIFT = 120.0
_MOST_LOG, _MOST_LINEAR = 709.0, 1e100
"""What a float64 can be the exponential of, and how large a value may be so that differences stay finite."""
_SAMPLE_EVERY = 8


@dataclass(frozen=True)
class ViewSettings:
    """Counts are of records, scores are in scales of the run's own residuals."""

    min_records: int = 12
    """Nothing is judged before."""
    floor_share: float = 0.001
    """The scale is at least this share of the level, or of a third of the first value."""
    widening: float = 4.0
    """The scale is widened by the factor 1 + widening / n while n residuals are few."""
    ordinary: float = 3.0
    """A score up to this is ordinary: accepted with no further question."""
    rejected: float = 5.0
    """A score beyond this, corrected for the tail, is learned clipped, and only the first three of a row."""
    max_rejected: int = 60
    """After so many in a row the level is a new one."""
    drift_allowance: float = 1.0
    """What the cumulative sum lets pass at each record (Page 1954)."""
    drift_cap: float = 5.0
    """What one record may add to it, so that one value alone never fills it."""
    num_nonpositive: int = 3
    """So many values clearly below zero, and the metric is no longer seen as a log."""
    loud_scale: float = 0.3
    """Of logs."""
    rise_margin: float = 1.68
    """Over the third largest rise of this run's levels."""
    excursions: ExcursionSettings = field(default_factory=ExcursionSettings)
    record: RecordSettings = field(default_factory=RecordSettings)


class MetricView:
    """Takes the finite values of one metric, one record at a time.

    Args:
        negligible_share: what is below this share of the first value is as good as zero.
    """

    __slots__ = (
        "_allowance", "_ceiling", "_center", "_drift", "_drift_limit", "_drift_peak", "_excursions",
        "_inverse", "_is_log", "_least", "_levels", "_negligible", "_num_nonpositive", "_num_rejected",
        "_offset", "_ordered", "_ordinary", "_quantum", "_record", "_reference", "_rejected", "_residual_steps",
        "_residuals", "_scale", "_settings", "_short", "_start", "_steps", "_values", "count", "is_loud",
        "is_suspended",
    )  # fmt: skip

    _is_log: bool
    _start: float
    _offset: float
    _least: float
    _values: deque[float]
    _steps: deque[int]
    _short: list[float]
    _residuals: deque[float]
    _residual_steps: deque[int]
    _ordered: list[float]
    count: int
    """Records taken so far."""
    is_loud: bool
    """Whether the logarithm is so noisy that a jump to a multiple of the level is nothing in its scales."""
    _center: float
    _scale: float
    _inverse: float
    _reference: float
    _allowance: float
    _levels: Levels
    _quantum: float
    _num_rejected: int
    _num_nonpositive: int
    _drift: float
    _drift_peak: float
    _drift_limit: float
    _excursions: Excursions
    _record: OwnRecord
    _ceiling: Ceiling

    def __init__(self, settings: ViewSettings, negligible_share: float = 0.0, state: ViewState | None = None) -> None:
        self._settings = settings
        self._negligible = negligible_share
        self._ordinary, self._rejected = settings.ordinary, settings.rejected
        self.is_suspended = False
        """An incident is open: what comes now is not what the run does by itself."""
        self._restore(state or ViewState())

    def __len__(self) -> int:
        return len(self._residuals)

    def is_young(self) -> bool:
        """Whether there is too little to judge by, or no level yet: a new one begins with the next value."""
        return len(self._residuals) < self._settings.min_records or not self._short

    def level(self) -> float:
        """The median of the last 15 accepted values; NaN where there are none."""
        return self._unit(self._middle()) if self._short else math.nan

    def scale(self) -> float:
        """The scale in the metric's unit, at the level."""
        return self._scale * (self.level() + self._offset) if self._is_log else self._scale

    def lowest(self) -> float:
        """The lowest level so far; infinite while young."""
        lowest = self._levels.lowest
        return self._unit(lowest) if lowest < math.inf else math.inf

    def band(self) -> tuple[float, float, float] | None:
        """Level, and from where to where values are ordinary; None while young."""
        if self.is_young():
            return None
        middle = self._middle() + self._center
        width = self._ordinary * self._scale * self._record.tail
        return self.level(), self._unit(middle - width), self._unit(middle + width)

    def single_limit(self, score: float) -> float:
        """The value above which the next reading scores more than this, more than the run has ever shown, and lies
        further above the level than it does now and then."""
        record = self._record
        raw = max(score * record.tail, record.single_limit(self.count))
        return self._unit(self._middle() + max(self._center + raw * self._scale, record.usual_gap()))

    def measure(self, value: float) -> Measure:
        """What a finite value would be, which is not taken; nothing while young, or where there is no logarithm."""
        shifted = value + self._offset if self._is_log else value
        if self.is_young() or (self._is_log and shifted <= self._least):
            return NOT_MEASURED
        raw = ((log(shifted) if self._is_log else shifted) - self._middle() - self._center) * self._inverse
        record = self._record
        return Measure(
            raw / record.tail,
            raw / max(record.single_limit(self.count), self._ordinary),
            raw / max(record.pair_limit(), self._ordinary * record.tail),
            self._drift / self._drift_limit,
        )

    def is_falling(self) -> bool:
        """Whether the level is clearly below that of some twenty records ago."""
        earlier = list(self._values)
        if len(earlier) < self._settings.min_records or not self._short:
            return False
        before = ordered.median(sorted(earlier[: len(earlier) // 2]))
        return before - self._middle() > self._scale

    def observe(self, step: int, value: float) -> Reading | None:
        """Takes a finite value; returns a reading where it is out of the ordinary."""
        if self._is_log:
            shifted = value + self._offset
            if shifted <= self._least:
                return self._take_nonpositive(step, value)
            x = log(shifted)
        else:
            x = max(-_MOST_LINEAR, min(_MOST_LINEAR, value))
        short = self._short
        middle = short[(len(short) - 1) >> 1] if short else x
        residual = x - middle
        z = (residual - self._center) * self._inverse
        drift = self._drift + (x - self._reference) * self._inverse - self._allowance
        if (
            z > self._ordinary
            or z < -self._rejected
            or drift > self._drift_limit
            or x > self._ceiling.height
            or self.count < _YOUNG_RECORDS
        ):
            return self._look(step, value, x, residual, z)
        if drift > 0.0:
            self._drift = drift
            if drift > self._drift_peak and drift > EXCURSION:
                self._drift_peak = drift
        elif self._drift:
            self._end_drift()
        if z > 1.0:
            if self.is_suspended:
                residual = self._center + self._scale
            else:
                self._record.note(z, residual)
        elif residual < _LOWEST_LOG_RESIDUAL and self._is_log:
            residual = _LOWEST_LOG_RESIDUAL
        self._accept(step, x, residual)
        return None

    def _accept(self, step: int, x: float, residual: float) -> None:
        values, short = self._values, self._short
        insort(short, x)
        if len(short) > _SHORT:
            del short[bisect_left(short, values[-_SHORT])]
        values.append(x)
        self._steps.append(step)
        self._num_rejected = 0
        count = self.count = self.count + 1
        if count & 1 or count < _YOUNG_RECORDS:
            residuals, in_order = self._residuals, self._ordered
            if len(residuals) == _NUM_RESIDUALS:
                del in_order[bisect_left(in_order, residuals[0])]
            residuals.append(residual)
            self._residual_steps.append(step)
            insort(in_order, residual)
        if not count & 7 or count < 32:
            self._refresh()

    def _look(self, step: int, value: float, x: float, residual: float, z: float) -> Reading | None:
        """The slow way: what is young, far out, new, or adds up."""
        if self.count < _YOUNG_RECORDS:
            self._note_quantum(x)
            if not self.count and self._negligible:
                x = self._begin(value)
                residual = 0.0
        if self.is_young():
            self._accept(step, x, self._no_fall(residual))
            return None
        self._add_drift((x - self._reference) * self._inverse)
        score = z / self._record.tail
        is_new = x > self._ceiling.height and self._ceiling.is_new(self.count)
        drift = self._drift / self._drift_limit
        reading = None
        if score > self._ordinary or drift > 1.0 or is_new:
            reading = self._reading(value, x, residual, z, drift, is_new)
        if not self.is_suspended:
            self._record.hold_back(z, residual, self.count)
        self._learn(step, x, residual, z)
        return reading

    def _reading(self, value: float, x: float, gap: float, raw: float, drift: float, is_new: bool) -> Reading:
        record = self._record
        values, levels, base = self._values, self._levels, self._reference - self._center
        newest = sorted((x, *list(values)[-4:]))  # fewer are there after going far back
        lasting = newest[len(newest) >> 1]
        rise = (lasting - base) * self._inverse / levels.rise_limit(self.count, self._settings.rise_margin)
        return Reading(
            value=value,
            level=self.level(),
            raw=raw,
            score=raw / record.tail,
            record=record.pair_limit(),
            single_record=record.single_limit(self.count),
            joint_record=record.joint_limit(),
            usual_gap=gap / record.usual_gap(),
            drift=drift,
            base=self._unit(base),
            lasting=self._unit(lasting),
            rise=rise if lasting > levels.highest() else 0.0,
            chance=record.chance(raw),
            company=record.company(),
            is_new=is_new,
            lately=self._unit(levels.highest_lately()),
        )

    def _learn(self, step: int, x: float, residual: float, z: float) -> None:
        middle = x - residual
        if z > self._rejected * self._record.tail:
            self._reject(step, x, middle)
        elif z < -self._rejected:
            self._fall(step, x, middle)
        else:
            most = self._center + self._scale if self.is_suspended else residual
            self._accept(step, x, min(most, self._no_fall(residual)))

    def _reject(self, step: int, x: float, middle: float) -> None:
        rejected = self._num_rejected + 1
        limit = self._center + self._rejected * self._scale * self._record.tail
        if rejected <= 3:
            self._accept(step, middle + limit, limit)
        elif rejected >= self._settings.max_rejected:
            self._short.clear()
            self._accept(step, x, 0.0)
            self._forget_lags()
            rejected = 0
        self._num_rejected = rejected

    def _fall(self, step: int, x: float, middle: float) -> None:
        """A value far below is learned clipped; three in a row are the new level."""
        limit = self._center - self._rejected * self._scale
        self._accept(step, x, self._no_fall(limit))
        newest = list(self._values)[-_FALLS:]
        if len(newest) == _FALLS and max(newest) < middle + limit:
            self._short[:] = sorted(newest)
            self._forget_lags()

    def _no_fall(self, residual: float) -> float:
        return max(residual, _LOWEST_LOG_RESIDUAL) if self._is_log else residual

    def begin_level(self) -> None:
        """What comes next is the new level: a new cycle of the schedule has begun."""
        if not self.is_young():
            self._short.clear()
            self._levels.forget_lags()
            self._end_drift()
            self._reference = math.inf

    def forgive(self, is_again: bool = False) -> None:
        """An incident has opened; or the last one again, which counts as the same."""
        self._record.forgive(is_again)

    def settle(self) -> None:
        """An incident has ended: what the cumulative sum gathered in it counts as no more than its limit."""
        self._drift_peak = min(self._drift_peak, self._drift_limit)
        self._end_drift()

    def _add_drift(self, score: float) -> None:
        drift = self._drift + min(score, self._settings.drift_cap) - self._allowance
        if drift <= 0.0:
            self._end_drift()
            return
        self._drift = min(drift, _MAX_DRIFT)
        if self._drift > EXCURSION:
            self._drift_peak = max(self._drift_peak, self._drift)

    def _end_drift(self) -> None:
        """A sum that has run out is what this run does by itself."""
        self._drift = 0.0
        if self._drift_peak > EXCURSION:
            self._excursions.note(self._drift_peak)
            self._drift_limit = self._excursions.limit(self.count)
        self._drift_peak = 0.0

    def _refresh(self) -> None:
        """Scale, center, tail and record from what was gathered since the last time."""
        count = self.count
        if not count & 15 or count < _YOUNG_RECORDS:
            self._rescale()
        middle = self._middle()
        if count & 7:
            self._reference = self._center + self._levels.base(middle)
            return
        self._record.end_block(count)
        self._excursions.fade()
        if not count & 31 or count < _YOUNG_RECORDS:
            self._drift_limit = self._excursions.limit(count)
        if not count % CEILING_RECORDS and count > _FIRST_RECORDS:
            self._ceiling.add(list(self._values)[-CEILING_RECORDS:])
        self._levels.note(middle, self._inverse, self.is_suspended, count > _FIRST_RECORDS)
        self._reference = self._center + self._levels.base(middle)

    def _rescale(self) -> None:
        in_order = self._ordered
        size = len(in_order)
        center = ordered.median(in_order)
        high, higher = ordered.quantile(in_order, 0.75), ordered.quantile(in_order, 0.9)
        spread = max((high - center) / _NORMAL_Q75, (higher - center) / _NORMAL_Q90)
        scale = max(spread, self._floor())
        self._center = max(center, -scale)
        self._scale = scale * (1.0 + self._settings.widening / size)
        self._inverse = 1.0 / self._scale
        self.is_loud = self._is_log and self._scale > self._settings.loud_scale
        self._set_allowance()

    def _set_allowance(self) -> None:
        """Scores that are not even about zero, as with every fourth record of a harder task, must not add up."""
        cap, center = self._settings.drift_cap, self._center
        sample = self._ordered[_SAMPLE_EVERY >> 1 :: _SAMPLE_EVERY]
        num_below = bisect_left(sample, center + cap * self._scale)
        total = (sum(sample[:num_below]) - num_below * center) * self._inverse + cap * (len(sample) - num_below)
        self._allowance = self._settings.drift_allowance + max(0.0, total / max(1, len(sample)))

    def _forget_lags(self) -> None:
        self._levels.forget_lags()
        self._drift = self._drift_peak = 0.0
        self._reference = self._center + self._middle()

    def _floor(self) -> float:
        """The smallest scale: a share of the level, and the smallest step a quantised log has shown."""
        level = abs(self.level()) if self._short else 0.0
        quantum = self._quantum if self._quantum < math.inf else 0.0
        floor = max(self._settings.floor_share * max(level, self._start / 3.0), quantum, 1e-12)
        if not self._is_log:
            return floor
        level += self._offset
        return min(1.0, floor / level) if level > 0.0 else self._settings.floor_share

    def _begin(self, value: float) -> float:
        """The first value says what is small."""
        self._start = abs(value)
        self._set_offset(self._negligible * self._start)
        return log(value + self._offset) if self._is_log else value

    def _set_offset(self, offset: float) -> None:
        self._offset = offset
        self._least = 0.1 * offset

    def _note_quantum(self, x: float) -> None:
        """The smallest step between two records, in the metric's unit."""
        if not self._values:
            return
        value, before = self._unit(x), self._unit(self._values[-1])
        step = abs(value - before)
        if 1e-9 * abs(value) < step < self._quantum:
            self._quantum = step

    def _take_nonpositive(self, step: int, value: float) -> Reading | None:
        """A little below zero is zero; what is clearly below cannot be a log. A norm of zero says nothing."""
        if not self._negligible:
            return None
        if self._least and value >= -10.0 * self._offset:
            return self.observe(step, 1.0001 * self._least - self._offset)
        self._num_nonpositive += 1
        if self._num_nonpositive < self._settings.num_nonpositive:
            return None
        self._leave_logs()
        return self.observe(step, value)

    def _leave_logs(self) -> None:
        """Sees the metric as it is from here on; what is known is carried over at the present level."""
        if not self._short:
            self._is_log = self.is_loud = False
            return
        height = math.exp(min(self._middle(), 0.3 * _MOST_LOG))
        self._values = deque((min(self._unit(x), _MOST_LINEAR) for x in self._values), _NUM_VALUES)
        self._residuals = deque(
            (height * math.expm1(min(residual, 0.5 * _MOST_LOG)) for residual in self._residuals), _NUM_RESIDUALS
        )
        self._short = sorted(min(self._unit(x), _MOST_LINEAR) for x in self._short)
        lowest, levels = self.lowest(), self._levels
        levels.forget()
        levels.lowest = lowest
        self._is_log = False
        self._ordered = sorted(self._residuals)
        self._ceiling.clear()
        self._rescale()
        self._forget_lags()

    def rewind(self, step: int) -> None:
        """Forgets the values of later steps; histograms and records keep what they cannot take apart."""
        while self._steps and self._steps[-1] > step:
            self._steps.pop()
            self._values.pop()
        while self._residual_steps and self._residual_steps[-1] > step:
            self._residual_steps.pop()
            self._residuals.pop()
        self._ordered = sorted(self._residuals)
        self._short = sorted(list(self._values)[-_SHORT:])
        self._num_rejected = 0
        if self._short and self._residuals:
            self._rescale()
            self._forget_lags()
        else:
            self._restore(ViewState())

    def _middle(self) -> float:
        short = self._short
        return short[(len(short) - 1) >> 1]

    def _unit(self, x: float) -> float:
        return math.exp(min(x, _MOST_LOG)) - self._offset if self._is_log else x

    def state(self) -> ViewState:
        return ViewState(
            is_log=self._is_log,
            start=self._start,
            offset=self._offset,
            values=pack(self._values),
            steps=pack_steps(self._steps),
            num_short=len(self._short),
            residuals=pack(self._residuals),
            residual_steps=pack_steps(self._residual_steps),
            count=self.count,
            center=self._center,
            scale=self._scale,
            reference=self._reference,
            allowance=self._allowance,
            quantum=self._quantum,
            num_rejected=self._num_rejected,
            num_nonpositive=self._num_nonpositive,
            drift=self._drift,
            drift_peak=self._drift_peak,
            drift_limit=self._drift_limit,
            is_suspended=self.is_suspended,
            excursions=self._excursions.state,
            record=self._record.state(),
            ceiling=self._ceiling.state(),
            levels=self._levels.state(),
        )

    def _restore(self, state: ViewState) -> None:
        settings = self._settings
        self._is_log, self._start = state.is_log, state.start
        self._set_offset(state.offset)
        self._values = deque(unpack(state.values), _NUM_VALUES)
        self._steps = deque(unpack_steps(state.steps), _NUM_VALUES)
        self._short = sorted(list(self._values)[len(self._values) - state.num_short :])
        self._residuals = deque(unpack(state.residuals), _NUM_RESIDUALS)
        self._residual_steps = deque(unpack_steps(state.residual_steps), _NUM_RESIDUALS)
        self._ordered = sorted(self._residuals)
        self._allowance = state.allowance or settings.drift_allowance
        self.count, self._center, self._scale = state.count, state.center, state.scale
        self._inverse = 1.0 / state.scale if state.scale > 0.0 else 0.0
        self.is_loud = self._is_log and state.scale > settings.loud_scale
        self._reference, self._quantum = state.reference, state.quantum
        self._num_rejected, self._num_nonpositive = state.num_rejected, state.num_nonpositive
        self._drift, self._drift_peak, self._drift_limit = state.drift, state.drift_peak, state.drift_limit
        self.is_suspended = state.is_suspended
        self._excursions = Excursions(settings.excursions, state.excursions)
        self._record = OwnRecord(settings.record, state.record)
        self._ceiling = Ceiling(state.ceiling)
        self._levels = Levels(state.levels)
