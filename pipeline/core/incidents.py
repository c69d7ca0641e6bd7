"""Signals of one cause become one incident: onset, peak, state, probability of recovery, end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.recent import RecentValues
from holter.pipeline.core.recovery import Estimate, RecoveryFeatures, RecoveryWeights, estimate
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import EffectName, IncidentState, SignalKind

_STATES: dict[SignalKind, IncidentState] = {
    "loss_spike": "spike",
    "grad_explosion": "exploding",
    "update_explosion": "exploding",
    "nan": "diverging",
}
_ORDER: tuple[IncidentState, ...] = ("spike", "exploding", "diverging")


@dataclass(frozen=True)
class IncidentSettings:
    """Counts are of records, so that they hold at any cadence."""

    band_scales: float = 1.0
    """The level (median of the last 9 losses) is inside its band up to this many scales above the baseline."""
    grad_ratio: float = 3.0
    """The gradient norm (median of the last 3) is calm up to this multiple of its baseline."""
    calm_records: int = 3
    """So many records in a row inside the band end an incident."""
    flat_after_records: int = 200
    """After so many, a level that falls no longer is a new one, and the incident ends as recovered_higher."""
    flat_scales: float = 0.3
    lost_after_records: int = 100
    """So many records in a row without a finite loss end an incident as lost."""
    weights: RecoveryWeights = field(default_factory=RecoveryWeights)


class Baselines(NamedTuple):
    """What was ordinary just before: NaN where nothing is known yet."""

    loss: float
    scale: float
    grad: float


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
    moved: dict[str, float] = {}
    applied: list[EffectName] = []
    """Effects that were applied while it was open."""

    def is_outside(self, level: float, band_scales: float) -> bool:
        """Whether a level is above the band; a level that is not a number is."""
        if math.isnan(self.base_loss):
            return not math.isfinite(level)
        return not level <= self.base_loss + band_scales * self.scale


class TrackerState(Struct):
    open: Incident | None = None
    num_healed: int = 0
    start_losses: list[float] = []
    is_lost: bool = False
    """An incident ended as lost, and the losses are still not finite: there is nothing new to say."""


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

    def note_start(self, loss: float | None) -> None:
        """Remembers the losses a run began with: progress since then is the measure of what matters."""
        if loss is not None and math.isfinite(loss) and len(self.state.start_losses) < 5:
            self.state.start_losses.append(loss)

    def update(
        self, record: StepRecord, evidence: list[Evidence], recent: RecentValues, baselines: Baselines, incident_id: str
    ) -> Change | None:
        """Takes one record. ``incident_id`` names the incident that this record may open.

        Returns:
            What happened to the open incident; None where there is none.
        """
        incident = self.state.open
        if incident is None:
            self.state.is_lost = self.state.is_lost and not recent.has_finite_loss()
            if not evidence or self.state.is_lost:
                return None
            incident = self.state.open = _opened(evidence, baselines, incident_id)
            self._advance(incident, record, recent)
            return Change("open", incident)
        for item in evidence:
            _join(incident, item)
        self._advance(incident, record, recent)
        final = self._final_state(incident, recent)
        if final is None:
            return Change("update", incident)
        return self.close(final)

    def close(self, state: IncidentState) -> Change | None:
        """Ends the open incident, if there is one."""
        incident = self.state.open
        if incident is None:
            return None
        incident.state = state
        self.state.num_healed += state in ("recovered", "recovered_higher")
        self.state.is_lost = state == "lost"
        self.state.open = None
        return Change("close", incident)

    def _advance(self, incident: Incident, record: StepRecord, recent: RecentValues) -> None:
        incident.num_records += 1
        loss = recent.last_loss()
        if math.isfinite(loss) and not loss <= incident.peak:
            incident.peak = loss
        features = self._features(incident, recent)
        result: Estimate = estimate(features, self._settings.weights)
        incident.p_recover, incident.moved = result
        if incident.state in _ORDER and features.given_back >= 0.5 and incident.num_records > 3:
            incident.state = "recovering"

    def _features(self, incident: Incident, recent: RecentValues) -> RecoveryFeatures:
        level = recent.median_loss(3)
        start = median(self.state.start_losses) if self.state.start_losses else math.nan
        given_back, still_above = _excursion(incident, level, start)
        base_grad = incident.base_grad
        return RecoveryFeatures(
            num_healed=self.state.num_healed,
            loss_non_finite=recent.loss_reached_weights(),
            num_non_finite_grads=recent.num_grads_reached_weights(),
            log_grad=_log(recent.median_grad(9)),
            log_base_grad=_log(base_grad),
            num_records=incident.num_records,
            given_back=given_back,
            still_above=still_above,
        )

    def _final_state(self, incident: Incident, recent: RecentValues) -> IncidentState | None:
        settings = self._settings
        loss = recent.last_loss()
        incident.num_lost = 0 if math.isfinite(loss) else incident.num_lost + 1
        incident.num_calm = incident.num_calm + 1 if self._is_calm(incident, recent, loss) else 0
        if incident.num_calm >= settings.calm_records:
            return "recovered"
        if incident.num_lost >= settings.lost_after_records:
            return "lost"
        if incident.num_records >= settings.flat_after_records and self._is_flat(incident, recent):
            return "recovered_higher"
        return None

    def _is_calm(self, incident: Incident, recent: RecentValues, loss: float) -> bool:
        if not math.isfinite(loss) or incident.is_outside(recent.median_loss(9), self._settings.band_scales):
            return False
        grad = recent.median_grad(3)
        unknown = math.isnan(grad) or math.isnan(incident.base_grad)
        return recent.last_grad_is_finite() and (unknown or grad <= self._settings.grad_ratio * incident.base_grad)

    def _is_flat(self, incident: Incident, recent: RecentValues) -> bool:
        newer, older = recent.halves()
        return math.isfinite(newer) and newer >= older - self._settings.flat_scales * incident.scale


def _opened(evidence: list[Evidence], baselines: Baselines, incident_id: str) -> Incident:
    first = min(evidence, key=lambda item: item.onset_step)
    incident = Incident(
        id=incident_id,
        kind=first.kind,
        state=_STATES.get(first.kind, "spike"),
        onset_step=first.onset_step,
        base_loss=baselines.loss,
        scale=baselines.scale,
        base_grad=baselines.grad,
        peak=-math.inf,
        kinds=[],
    )
    for item in evidence:
        _join(incident, item)
    return incident


def _join(incident: Incident, item: Evidence) -> None:
    if item.kind not in incident.kinds:
        incident.kinds.append(item.kind)
    state = _STATES.get(item.kind, "spike")
    if incident.state not in _ORDER or _ORDER.index(state) > _ORDER.index(incident.state):
        incident.state = state


def _excursion(incident: Incident, level: float, start: float) -> tuple[float, float]:
    """(share given back, height still kept relative to what the run has learned)."""
    base = incident.base_loss
    if math.isnan(base) or math.isnan(level):
        return 0.0, 0.0
    height = incident.peak - base
    given_back = 1.0 if height <= 0.0 else min(1.0, max(0.0, (incident.peak - level) / height))
    reference = max(abs(base), 0.0 if math.isnan(start) else start / 3.0, 1e-12)
    return given_back, (level - base) / reference


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else math.nan
