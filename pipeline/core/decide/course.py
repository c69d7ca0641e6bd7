"""How an incident went so far: which stream moved first, whether that is over, and what it left behind.

The stream that moves first tells the cause. Weights change after the loss of a step was taken: an update that is too
large shows in that step's update norm and only later in losses and gradients; bad data shows in the loss and the
gradient of its own step; a gradient that explodes by itself leaves the loss of its step alone.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from holter.pipeline.core.decide.progress import Progress
from holter.pipeline.core.incidents import Incident
from holter.pipeline.core.stats.rolling import MAD_TO_SD
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS, UPDATE_NORM

Mover = Literal["update", "gradient", "loss", "unknown"]

NUM_KEPT = 48
LOOK_BACK_STEPS = 8
_LEAST_BASELINE = 8
_LEAST_RATIO = 3.0
_LOSS_SCALES = 3.0
_KEPT_AFTER = 16
_FALL = math.log(0.93)
_FALLS_OF_INERTIA = 3
"""Moments that were pushed hand on the push, a little less at every step; what pushes from outside does not fade so."""
_LEVEL_OF = 3
"""Losses whose median is the level that is left."""

Kept = tuple[int, float, float, float]
"""Step, loss, gradient norm, update norm; NaN where absent. A loss that is not finite is infinite here."""


class Norm(Struct):
    """A norm against what was ordinary before, in logs: NaN where too little was known."""

    base: float = math.nan
    limit: float = math.nan
    """Above the base by this much is out of the ordinary."""
    first_step: int | None = None
    first: float = 0.0
    """How far it was when it first was."""
    now: float = math.nan
    peak: float = 0.0
    """Of finite ones that the optimizer took."""
    num_falls: int = 0
    """In a row up to now, each by at least 7 %."""

    def take(self, step: int, value: float, is_taken: bool = True) -> None:
        if not value > 0.0 or math.isnan(self.base):
            return
        before, self.now = self.now, math.log(value) - self.base
        self.num_falls = self.num_falls + 1 if self.now - before <= _FALL else 0
        if is_taken and value < math.inf:
            self.peak = max(self.peak, self.now)
        if self.first_step is None and self.now > self.limit:
            self.first_step, self.first = step, self.now

    def is_calm(self) -> bool:
        return not self.now > self.limit

    def is_left_alone(self) -> bool:
        """Whether nothing pushes it any more: it is calm, or fades as moments do by themselves."""
        return self.is_calm() or self.num_falls >= _FALLS_OF_INERTIA


class Followed(Struct):
    """What is remembered of the open incident."""

    incident: str
    grad: Norm
    update: Norm
    first_bad_step: int | None = None
    num_moving: int = 0
    """Records until it was over,"""
    num_bad: int = 0
    """and of these the ones with a loss out of the ordinary."""
    peak: float = -math.inf
    last_loss: float = math.nan
    after: list[float] = []
    """Losses since it was over, at most the newest 16,"""
    num_after: int = 0
    first_after: float = math.nan
    displaced: float = 0.0
    """Ordinary updates that those out of the ordinary went beyond."""
    num_non_finite: int = 0
    """Losses in a row that were not finite, up to now."""
    num_withheld: int = 0
    """Updates in a row that were left out because the gradient was not finite, up to now."""


class CourseState(Struct):
    kept: list[Kept] = []
    followed: Followed | None = None


class Course(NamedTuple):
    mover: Mover
    is_over: bool
    """Whether the stream that moved first is calm again."""
    num_moving: int
    """Records until it was over, or so far;"""
    num_bad: int
    """those of them with a loss out of the ordinary."""
    num_after: int
    """Records since it was over."""
    steps_to_heal: float
    """Until the loss is down again if it heals; NaN while too little was seen."""
    grad_ratio: float
    """The highest gradient norm that went into the moments, over its baseline; 1 where nothing is known."""
    displaced_steps: float = 0.0
    """How far updates that were too large carried the weights, in ordinary updates; 0 while no loss shows it."""
    num_non_finite: int = 0
    """Losses in a row that are not finite, up to now."""
    num_withheld: int = 0
    """Updates in a row that were left out because the gradient was not finite, up to now."""
    overdrive: float = 1.0
    """By how much updates were too large at first that still are, beyond all patience; 1 where that is not so."""


class CourseTracker:
    """Keeps the newest 48 records, and follows an open incident from 8 steps before its onset."""

    def __init__(self, state: CourseState | None = None) -> None:
        kept = state or CourseState()
        self._kept: deque[Kept] = deque(kept.kept, maxlen=NUM_KEPT)
        self._followed = kept.followed

    def note(self, record: StepRecord) -> None:
        """Takes every judged record."""
        get = record.values.get
        loss = get(LOSS)
        if loss is None:
            loss = math.nan
        elif loss - loss != 0.0:
            loss = math.inf
        update = get(UPDATE_NORM, math.nan) if record.applied else 0.0
        self._kept.append((record.step, loss, get(GRAD_NORM, math.nan), update))

    def follow(self, incident: Incident, progress: Progress, patience_steps: float) -> Course:
        """What the record that was noted last makes of the open incident."""
        followed = self._followed
        if followed is None or followed.incident != incident.id:
            self._followed = followed = self._begin(incident, patience_steps)
        else:
            _take(followed, self._kept[-1], incident, patience_steps)
        mover = _mover(followed, incident)
        return Course(
            mover=mover,
            is_over=_is_over(followed, mover, incident),
            num_moving=followed.num_moving,
            num_bad=followed.num_bad,
            num_after=followed.num_after,
            steps_to_heal=_steps_to_heal(followed, mover, incident, progress),
            grad_ratio=math.exp(min(followed.grad.peak, 50.0)),
            displaced_steps=0.0 if followed.first_bad_step is None else followed.displaced,
            num_non_finite=followed.num_non_finite,
            num_withheld=followed.num_withheld,
            overdrive=_overdrive(followed, mover, incident),
        )

    def rewind(self, step: int) -> None:
        self._kept = deque((kept for kept in self._kept if kept[0] <= step), maxlen=NUM_KEPT)
        self._followed = None

    def state(self) -> CourseState:
        return CourseState(list(self._kept), self._followed)

    def _begin(self, incident: Incident, patience_steps: float) -> Followed:
        start = incident.onset_step - LOOK_BACK_STEPS
        before = [kept for kept in self._kept if kept[0] < start]
        if len(before) < _LEAST_BASELINE:
            before = [kept for kept in self._kept if kept[0] < incident.onset_step]
        followed = Followed(incident.id, _norm([kept[2] for kept in before]), _norm([kept[3] for kept in before]))
        for kept in self._kept:
            if kept[0] >= start:
                _take(followed, kept, incident, patience_steps)
        return followed


def presumed(incident: Incident) -> Course:
    """The course of an incident of which only its kinds are known."""
    kinds = incident.kinds or [incident.kind]
    movers: dict[str, Mover] = {"update_explosion": "update", "grad_explosion": "gradient", "loss_spike": "loss"}
    return Course(movers.get(kinds[0], "unknown"), True, 0, 0, incident.num_records, math.nan, 1.0)


def _norm(values: list[float]) -> Norm:
    logs = [math.log(value) for value in values if 0.0 < value < math.inf]
    if len(logs) < _LEAST_BASELINE:
        return Norm()
    base = median(logs)
    spread = MAD_TO_SD * median(abs(value - base) for value in logs)
    return Norm(base, max(math.log(_LEAST_RATIO), 4.0 * spread))


def _take(followed: Followed, kept: Kept, incident: Incident, patience_steps: float) -> None:
    step, loss, grad, update = kept
    followed.grad.take(step, grad, is_taken=update != 0.0)
    followed.update.take(step, update)
    is_withheld = update == 0.0 and not math.isfinite(grad)
    followed.num_withheld = followed.num_withheld + 1 if is_withheld else 0
    if update > 0.0 and not followed.update.is_calm():
        followed.displaced += math.expm1(min(followed.update.now, 50.0))
    if not math.isnan(loss):
        _take_loss(followed, step, loss, incident)
    if (followed.first_bad_step, followed.grad.first_step, followed.update.first_step) == (None, None, None):
        return  # it has not begun yet
    is_over = _is_over(followed, _mover(followed, incident), incident)
    _look_after(followed, is_over or followed.num_moving >= patience_steps)


def _take_loss(followed: Followed, step: int, loss: float, incident: Incident) -> None:
    followed.last_loss = loss
    followed.num_non_finite = 0 if math.isfinite(loss) else followed.num_non_finite + 1
    if math.isfinite(loss):
        followed.peak = max(followed.peak, loss)
    if math.isnan(incident.base_loss) or loss <= incident.base_loss + _LOSS_SCALES * incident.scale:
        return
    followed.num_bad += followed.num_after == 0
    if followed.first_bad_step is None:
        followed.first_bad_step = step


def _mover(followed: Followed, incident: Incident) -> Mover:
    far = math.inf
    loss, grad, update = (
        far if first is None else float(first)
        for first in (followed.first_bad_step, followed.grad.first_step, followed.update.first_step)
    )
    if min(loss, grad, update) == far:
        return presumed(incident).mover
    if update < min(loss, grad):
        return "update"
    if grad < loss:
        return "update" if update == grad and followed.update.peak > followed.grad.peak else "gradient"
    return "unknown" if math.isnan(followed.update.base) else "loss"


def _is_over(followed: Followed, mover: Mover, incident: Incident) -> bool:
    if followed.last_loss == math.inf:
        return False
    if mover == "update":
        return followed.update.is_left_alone()
    if mover == "gradient":
        return followed.grad.is_calm()
    height = max(2.0 * _LOSS_SCALES * incident.scale, followed.peak - incident.base_loss)
    return not followed.last_loss > incident.base_loss + 0.5 * height


def _overdrive(followed: Followed, mover: Mover, incident: Incident) -> float:
    goes_on = mover == "update" and followed.num_after > 0 and not _is_over(followed, mover, incident)
    return math.exp(min(followed.update.first, 50.0)) if goes_on else 1.0


def _look_after(followed: Followed, is_over: bool) -> None:
    """Collects what it left behind; what begins again is not over."""
    if not is_over:
        followed.after, followed.num_after = [], 0
        followed.num_moving += 1
        return
    if not followed.num_after:
        followed.first_after = followed.last_loss
    followed.num_after += 1
    followed.after = [*followed.after, followed.last_loss][-_KEPT_AFTER:]


def _steps_to_heal(followed: Followed, mover: Mover, incident: Incident, progress: Progress) -> float:
    """The less of two estimates: how far back the level throws the run, and where its fall so far leads.

    The gap is taken a scale smaller than seen: the level is a median of three noisy losses.
    """
    if followed.num_after < _LEVEL_OF or math.isnan(incident.base_loss):
        return math.nan
    if mover == "loss" and followed.grad.is_calm() and not _is_over(followed, mover, incident):
        return math.nan  # other data, perhaps, not other weights
    gap = median(followed.after[-_LEVEL_OF:]) - incident.base_loss - incident.scale
    if not gap > 0.0:
        return 0.0
    back = progress.steps_back(incident.onset_step, incident.base_loss + gap)
    first_gap = followed.first_after - incident.base_loss
    fall = _steps_by_fall(first_gap, gap, incident.scale, followed.num_after, mover != "loss")
    return min((each for each in (back, fall) if not math.isnan(each)), default=math.nan)


def _steps_by_fall(first_gap: float, gap: float, scale: float, num_steps: int, is_slow: bool) -> float:
    """Steps until a fall that led from one gap to another is down to a scale; NaN where nothing falls.

    An exponential fall is what follows bad data. A slow one, after updates that were too large, is the geometric mean
    of an exponential and a hyperbolic fall through both gaps.

    >>> _steps_by_fall(4.0, 1.0, 0.125, 4, is_slow=False)  # two halvings in 4 steps, three to go
    6.0
    >>> round(_steps_by_fall(4.0, 1.0, 0.125, 4, is_slow=True), 2)  # 6 and 37 1/3
    14.97
    """
    if not first_gap > gap or not gap > scale > 0.0:
        return math.nan if gap > scale else 0.0
    exponential = num_steps * math.log(gap / scale) / math.log(first_gap / gap)
    if not is_slow:
        return exponential
    hyperbolic = num_steps / (first_gap / gap - 1.0) * (first_gap / scale - 1.0) - num_steps
    return math.sqrt(exponential * hyperbolic)
