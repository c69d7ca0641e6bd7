"""Signals of one cause become one incident: onset, peak, state, probability of recovery, end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.recent import RecentValues
from holter.pipeline.core.recovery import RecoveryFeatures, RecoveryWeights, estimate
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import EffectName, IncidentState, SignalKind

_STATES: dict[SignalKind, IncidentState] = {
    "loss_spike": "spike",
    "loss_scale": "spike",
    "grad_explosion": "exploding",
    "update_explosion": "exploding",
    "nan": "diverging",
    "divergence": "diverging",
    "collapse": "stuck",
    "plateau": "stuck",
    "level_shift": "diverging",
    "stuck": "stuck",
}
UNLIKELY_BELOW = 0.5
"""A run with a lower P(recover) is more likely not to heal."""
_ORDER: tuple[IncidentState, ...] = ("spike", "exploding", "diverging")


@dataclass(frozen=True)
class IncidentSettings:
    """Counts are of records, so that they hold at any cadence."""

    band_scales: float = 2.0
    """The level is inside its band up to this many scales above the baseline,"""
    band_size: float = 0.01
    """or this share of what the run has reached and come from,"""
    band_height: float = 0.5
    """but no further than this share of how far the level has been above."""
    grad_ratio: float = 3.0
    """The gradient norm (median of the last 3) is calm up to this multiple of its baseline."""
    calm_records: int = 5
    """So many records in a row inside the band end an incident;"""
    coarse_calm_records: int = 3
    """in a coarse log so many."""
    stuck_records: int = 25
    """Every so many records an open incident is asked whether it gets anywhere:"""
    stuck_closed: float = 0.1
    """it is stuck where it closed less than this share of the gap twice in a row,"""
    high_checks: int = 3
    """and where, whatever the loss does, the gradient norm stayed high more often than this."""
    plateau_spread: float = 0.006
    """The last 16 losses within this share of their level, and above the baseline, are a plateau,"""
    dead_scales: float = 0.1
    """and so are they within this share of the noise that there was, whichever way they creep."""
    flat_after_records: int = 100
    """After so many, a level that falls no longer is a new one, and the incident ends."""
    flat_scales: float = 0.3
    lost_after_records: int = 100
    """So many records in a row without a finite loss end an incident as lost."""
    reopen_records: int = 10
    coarse_reopen_records: int = 4
    """An incident that comes so soon after the last one has ended is that one again."""
    weights: RecoveryWeights = field(default_factory=RecoveryWeights)


class Baselines(NamedTuple):
    """What was ordinary just before, in the metric's unit: NaN where nothing is known yet."""

    loss: float
    scale: float
    grad: float
    start: float
    """The level that the run began with."""
    lowest_grad: float
    is_coarse: bool = False
    num_records: int = 1000
    """Of the run, so far."""


class Incident(Struct):
    """Baselines are those at the onset; ``peak`` is the highest finite loss since."""

    id: str
    kind: SignalKind
    state: IncidentState
    onset_step: int
    base_loss: float
    scale: float
    base_grad: float
    peak: float
    kinds: list[SignalKind]
    num_records: int = 0
    num_calm: int = 0
    num_lost: int = 0
    p_recover: float = math.nan
    num_unlikely: int = 0
    """Estimates in a row that found it more likely not to heal."""
    moved: dict[str, float] = {}
    features: dict[str, float] = {}
    applied: list[EffectName] = []
    """Effects that were applied while it was open."""
    start: float = math.nan
    lowest_grad: float = math.nan
    is_coarse: bool = False
    num_before: int = 1000
    """Records of the run before it was opened."""
    first_losses: list[float] = []
    """The first three finite losses since."""
    is_stuck: bool = False
    height: float = 0.0
    """How far the median of three losses has been above the baseline."""
    num_idle: int = 0
    """How many times in a row it did not."""
    num_high: int = 0
    """How many times in a row the gradient norm had stayed high."""
    mark: float = math.nan
    """The gap when it was last asked whether it gets anywhere."""

    def is_outside(self, level: float, band_scales: float) -> bool:
        """Whether a level is above the band; a level that is not a number is."""
        if math.isnan(self.base_loss):
            return not math.isfinite(level)
        return not level <= self.base_loss + band_scales * self.scale

    def reference(self) -> float:
        """What a rise is measured by: the level reached, or a third of that it came from."""
        start = 0.0 if math.isnan(self.start) else abs(self.start) / 3.0
        return max(abs(self.base_loss), start, 2.0 * self.scale, 1e-12)

    def lost_progress(self, above: float) -> float:
        """How much of what the run had learned a rise takes away, in [0, 2]; 0 for a loss that means no progress."""
        progress = self.start - self.base_loss
        if self.base_loss < 0.0 or not progress > 0.02 * self.reference():
            return 0.0
        return min(2.0, max(0.0, above / progress))


class Closed(Struct):
    """The incident that ended last, and how long ago."""

    incident: Incident
    num_records: int = 0


class TrackerState(Struct):
    open: Incident | None = None
    num_healed: int = 0
    is_lost: bool = False
    """An incident ended as lost, and the losses are still not finite: there is nothing new to say."""
    closed: Closed | None = None


class Change(NamedTuple):
    phase: Literal["open", "update", "close"]
    incident: Incident


class IncidentTracker:
    """The incidents of one run, at most one open at a time: what comes while one is open belongs to it."""

    def __init__(self, settings: IncidentSettings, state: TrackerState | None = None) -> None:
        self._settings = settings
        self.state = state or TrackerState()

    @property
    def open(self) -> Incident | None:
        return self.state.open

    def update(
        self, record: StepRecord, evidence: list[Evidence], recent: RecentValues, baselines: Baselines, incident_id: str
    ) -> Change | None:
        """Takes one record. ``incident_id`` names the incident that this record may open.

        Returns:
            What happened to the open incident; None where there is none.
        """
        state = self.state
        incident = state.open
        if incident is None:
            state.is_lost = state.is_lost and not recent.has_finite_loss()
            if not evidence or state.is_lost:
                return None
            return self._open(evidence, recent, baselines, incident_id)
        for item in evidence:
            _join(incident, item)
        self._advance(incident, recent)
        is_moving = any(item.kind == "update_explosion" for item in evidence)
        final = self._final_state(incident, recent, is_moving)
        return Change("update", incident) if final is None else self.close(final)

    def pass_calm(self) -> None:
        """Takes a record with nothing in it while no incident is open."""
        closed = self.state.closed
        if closed is not None:
            closed.num_records += 1
            settings = self._settings
            coarse = closed.incident.is_coarse
            if closed.num_records > (settings.coarse_reopen_records if coarse else settings.reopen_records):
                self.state.closed = None

    def close(self, final: IncidentState) -> Change | None:
        """Ends the open incident, if there is one."""
        incident = self.state.open
        if incident is None:
            return None
        incident.state = final
        self.state.num_healed += final in ("recovered", "recovered_higher")
        self.state.is_lost = final == "lost"
        self.state.open = None
        self.state.closed = Closed(incident)
        return Change("close", incident)

    def forget(self) -> None:
        """Another run began: what this one had is over."""
        self.state.closed = None
        self.state.num_healed = 0
        self.state.is_lost = False

    def _open(self, evidence: list[Evidence], recent: RecentValues, baselines: Baselines, incident_id: str) -> Change:
        closed = self.state.closed
        if closed is not None and closed.incident.state in ("recovered", "recovered_higher"):
            incident = closed.incident
            incident.num_calm = 0
            incident.first_losses = []
            self.state.num_healed -= 1
            phase: Literal["open", "update"] = "update"
        else:
            incident, phase = _opened(evidence, baselines, incident_id), "open"
        self.state.closed = None
        self.state.open = incident
        for item in evidence:
            _join(incident, item)
        self._advance(incident, recent)
        return Change(phase, incident)

    def _advance(self, incident: Incident, recent: RecentValues) -> None:
        incident.num_records += 1
        loss = recent.last_loss()
        if math.isfinite(loss):
            if not loss <= incident.peak:
                incident.peak = loss
            if len(incident.first_losses) < 3:
                incident.first_losses.append(loss)
        self._follow_down(incident, recent)
        incident.height = max(incident.height, recent.median_loss(3) - incident.base_loss)
        self._ask_whether_stuck(incident, recent)
        features = self._features(incident, recent)
        incident.p_recover, incident.moved = estimate(features, self._settings.weights)
        incident.num_unlikely = incident.num_unlikely + 1 if incident.p_recover < UNLIKELY_BELOW else 0
        incident.features = {name: float(value) for name, value in features._asdict().items() if not math.isnan(value)}
        if incident.is_stuck or features.is_plateau:
            incident.state = "stuck"
        elif incident.state in (*_ORDER, "stuck") and features.given_back >= 0.5 and incident.num_records > 3:
            incident.state = "recovering"

    def _follow_down(self, incident: Incident, recent: RecentValues) -> None:
        """A level well below the baseline is progress: what comes after is held against it."""
        level = recent.median_loss(9)
        if level < incident.base_loss - 2.0 * incident.scale and incident.num_records >= 9:
            incident.base_loss = level
            incident.height = 0.0
            incident.peak = max(level, recent.last_loss())

    def _ask_whether_stuck(self, incident: Incident, recent: RecentValues) -> None:
        settings = self._settings
        if incident.num_records % settings.stuck_records:
            return
        gap = recent.median_loss(9) - incident.base_loss
        is_above = gap > settings.band_scales * incident.scale and gap > 0.02 * incident.reference()
        is_idle = is_above and incident.base_loss >= 0.0 and gap >= (1.0 - settings.stuck_closed) * incident.mark
        is_idle = is_idle and _log_share(gap, incident) > settings.stuck_closed
        grad = recent.median_grad(9)
        ratio = settings.grad_ratio * (1.0 if _log_share(gap, incident) > settings.stuck_closed else 3.0)
        stays_high = grad > ratio * incident.base_grad and _grad_closing(recent) < 0.5
        incident.num_idle = incident.num_idle + 1 if is_idle or (stays_high and is_above) else 0
        incident.num_high = incident.num_high + 1 if stays_high else 0
        incident.is_stuck = incident.num_idle > 1 or incident.num_high > settings.high_checks
        incident.mark = gap

    def _features(self, incident: Incident, recent: RecentValues) -> RecoveryFeatures:
        level = recent.median_loss(4)
        above = level - incident.base_loss
        known = not math.isnan(above)
        height = incident.peak - incident.base_loss
        given_back = 1.0 if height <= 0.0 else min(1.0, max(0.0, (incident.peak - level) / height))
        reference = incident.reference()
        return RecoveryFeatures(
            num_healed=self.state.num_healed,
            loss_non_finite=recent.loss_reached_weights(),
            num_non_finite_grads=recent.num_grads_reached_weights(),
            log_grad=_log(recent.median_grad(9)),
            log_least_grad=_log(recent.lowest_grad()),
            grad_closing=_grad_closing(recent),
            log_base_grad=_log(incident.base_grad),
            log_lowest_grad=_log(incident.lowest_grad),
            num_records=incident.num_records,
            given_back=given_back if known else 0.0,
            still_above=above / reference if known else 0.0,
            closing=self._closing(incident, recent),
            lost_progress=incident.lost_progress(above) if known else 0.0,
            num_before=incident.num_before,
            risen=_risen(incident, recent),
            is_plateau=self._is_plateau(incident, recent, reference),
            is_stuck=incident.is_stuck,
            is_collapse="collapse" in incident.kinds or "plateau" in incident.kinds,
            is_divergence="divergence" in incident.kinds,
        )

    def _closing(self, incident: Incident, recent: RecentValues) -> float:
        newer, older = recent.halves()
        gap = older - incident.base_loss
        if not gap > incident.scale:
            return 0.0
        return min(2.0, max(-2.0, (older - newer) / gap))

    def _is_plateau(self, incident: Incident, recent: RecentValues, reference: float) -> bool:
        if incident.num_records < 16:
            return False
        low, high, level = recent.extent()
        if math.isnan(level) or not level - incident.base_loss > max(0.02 * reference, incident.scale):
            return False
        if high - low <= self._settings.dead_scales * incident.scale:
            return True
        newer, older = recent.halves()
        is_flat = high - low <= self._settings.plateau_spread * abs(level)
        return is_flat and newer >= older - 0.25 * (high - low)

    def _final_state(self, incident: Incident, recent: RecentValues, is_moving: bool) -> IncidentState | None:
        """``is_moving``: whether the updates are too large still, so that the weights are carried on."""
        settings = self._settings
        loss = recent.last_loss()
        incident.num_lost = 0 if math.isfinite(loss) else incident.num_lost + 1
        is_calm = not is_moving and self._is_calm(incident, recent, loss)
        incident.num_calm = incident.num_calm + 1 if is_calm else 0
        if incident.num_calm >= (settings.coarse_calm_records if incident.is_coarse else settings.calm_records):
            return "recovered_higher" if incident.is_outside(recent.median_loss(5), 1.0) else "recovered"
        if incident.num_lost >= settings.lost_after_records:
            return "lost"
        if incident.num_records >= settings.flat_after_records and self._is_flat(incident, recent):
            return "recovered_higher" if incident.p_recover >= 0.5 else "lost"
        return None

    def _is_calm(self, incident: Incident, recent: RecentValues, loss: float) -> bool:
        settings = self._settings
        if not math.isfinite(loss):
            return False
        if math.isnan(incident.base_loss):
            return recent.last_grad_is_finite()
        band = max(settings.band_scales * incident.scale, settings.band_size * incident.reference())
        if incident.height > settings.band_scales * incident.scale:
            band = min(band, settings.band_height * incident.height)
        width = 16 if incident.kind == "divergence" else 3
        if not recent.median_loss(width) - incident.base_loss <= band:
            return False
        grad = recent.median_grad(3)
        unknown = math.isnan(grad) or math.isnan(incident.base_grad)
        makes_progress = recent.median_loss(9) <= incident.base_loss - incident.scale
        ratio = settings.grad_ratio * (3.0 if makes_progress else 1.0)
        return recent.last_grad_is_finite() and (unknown or grad <= ratio * incident.base_grad)

    def _is_flat(self, incident: Incident, recent: RecentValues) -> bool:
        newer, older = recent.halves()
        return math.isfinite(newer) and newer >= older - self._settings.flat_scales * incident.scale


def _opened(evidence: list[Evidence], baselines: Baselines, incident_id: str) -> Incident:
    first = min(evidence, key=lambda item: item.onset_step)
    return Incident(
        id=incident_id,
        kind=first.kind,
        state=_STATES.get(first.kind, "spike"),
        onset_step=first.onset_step,
        base_loss=baselines.loss,
        scale=baselines.scale,
        base_grad=baselines.grad,
        peak=-math.inf,
        kinds=[],
        start=baselines.start,
        lowest_grad=baselines.lowest_grad,
        is_coarse=baselines.is_coarse,
        num_before=baselines.num_records,
        first_losses=[],
    )


def _join(incident: Incident, item: Evidence) -> None:
    if item.kind not in incident.kinds:
        incident.kinds.append(item.kind)
    state = _STATES.get(item.kind, "spike")
    if incident.state not in _ORDER or (state in _ORDER and _ORDER.index(state) > _ORDER.index(incident.state)):
        incident.state = state


def _grad_closing(recent: RecentValues) -> float:
    newer, older = map(_log, recent.grad_halves())
    return 0.0 if math.isnan(newer) or math.isnan(older) else min(4.0, max(-4.0, older - newer))


def _risen(incident: Incident, recent: RecentValues) -> float:
    """How far the loss has climbed since the incident began, in three scales of the run's noise, in [-1, 1]."""
    if len(incident.first_losses) < 3 or not incident.scale > 0.0:
        return 0.0
    climbed = recent.median_loss(3) - sorted(incident.first_losses)[1]
    return 0.0 if math.isnan(climbed) else min(1.0, max(-1.0, climbed / (3.0 * incident.scale)))


def _log(value: float) -> float:
    return math.log(value) if 0.0 < value < math.inf else math.nan


def _log_share(gap: float, incident: Incident) -> float:
    """What is left of an excursion that is seen as a ratio: of 2 to 200 and back to 2.2, a fiftieth."""
    least = 0.02 * incident.reference()
    base = max(incident.base_loss, 0.0) + least
    height = max(incident.peak - incident.base_loss, gap)
    return math.log1p(gap / base) / math.log1p(height / base) if gap > 0.0 and height > 0.0 else 0.0
