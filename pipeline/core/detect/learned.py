"""A detector that is fitted and not thought out: a logistic regression on what the views say of a record.

Off unless a model is given. Where it is on it opens no incident and moves no decision: fitted on some families of
labelled runs it does worse on others than the rules, so it is one more word beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.phase import Phase
from holter.pipeline.core.detect.reading import NOT_MEASURED, Measure
from holter.pipeline.core.detect.view import MetricView
from holter.pipeline.core.stats.ordered import median
from holter.schemas.telemetry import LOSS

FEATURES = (
    "loss score",
    "loss score, second of three",
    "loss score, median of nine",
    "loss rise, median of nine",
    "loss above its lowest level",
    "loss score over its record",
    "loss score over its record of pairs, second of three",
    "loss rise times score over its record",
    "loss drift over its limit",
    "loss is flat",
    "gradient score",
    "gradient score, second of three",
    "gradient score over its record",
    "not finite",
    "share of high scores before",
    "few records before",
)
QUIET_RECORDS = 20
"""So many records below the threshold end an episode, which is told once."""
_NEW, _PAIR = 9, 3
_MOST_SCORE, _MOST_RISE, _MOST_SHARE = 12.0, 2.0, 3.0
_HIGH = 4.0
_FLAT = 0.006
_YOUNG_RECORDS = 50.0
_FORGETTING, _HEALING = 0.995, 0.8
_NUM_TOLD = 2


@dataclass(frozen=True)
class LearnedModel:
    """Log odds of trouble: ``bias`` + ``weights`` · features, one weight for each of ``FEATURES``.

    Raises:
        ValueError: the weights are not as many.
    """

    bias: float
    weights: tuple[float, ...]
    threshold: float

    def __post_init__(self) -> None:
        if len(self.weights) != len(FEATURES):
            raise ValueError(f"{len(self.weights)} weights for {len(FEATURES)} features")

    def log_odds(self, features: list[float]) -> float:
        """
        >>> LearnedModel(-1.0, (0.5,) + (0.0,) * 15, 0.0).log_odds([4.0] + [0.0] * 15)
        1.0
        """
        return self.bias + sum(weight * value for weight, value in zip(self.weights, features, strict=True))

    def moved_by(self, features: list[float]) -> str:
        """The features that speak most for trouble."""
        terms = sorted(zip(self.weights, features, FEATURES, strict=True), key=lambda term: -term[0] * term[1])
        return ", ".join(name for weight, value, name in terms[:_NUM_TOLD] if weight * value > 0.0)


class LearnedState(Struct):
    """The newest scores and values, oldest first."""

    loss_scores: list[float] = []
    losses: list[float] = []
    loss_pairs: list[float] = []
    grad_scores: list[float] = []
    not_finite: float = 0.0
    share_high: float = 0.0
    num_records: int = 0
    num_quiet: int = QUIET_RECORDS


class Learned:
    """Takes each record before the views do."""

    def __init__(self, model: LearnedModel, state: LearnedState | None = None) -> None:
        self._model = model
        self.state = state or LearnedState()
        self.features: list[float] = []
        """Of the last record, by the order of ``FEATURES``."""

    def update(
        self,
        step: int,
        loss: float | None,
        grad: float | None,
        views: tuple[MetricView, MetricView],
        phase: Phase,
        is_told: bool,
    ) -> Evidence | None:
        """Takes a record; returns what begins an episode.

        Args:
            views: of the loss and of the gradient norm.
            is_told: something is said of the record already: an incident is open.
        """
        self.features = self._features(loss, grad, views, phase)
        state, model = self.state, self._model
        log_odds = model.log_odds(self.features)
        num_quiet = state.num_quiet
        state.num_quiet = num_quiet + 1
        if is_told or log_odds > model.threshold:
            state.num_quiet = 0
        if is_told or log_odds <= model.threshold or num_quiet < QUIET_RECORDS:
            return None
        value = math.nan if loss is None else loss
        return Evidence(
            "learned", LOSS, value, views[0].level(), log_odds, model.threshold, "info", step,
            model.moved_by(self.features),
        )  # fmt: skip

    def restart(self) -> None:
        self.state = LearnedState()

    def _features(
        self, loss: float | None, grad: float | None, views: tuple[MetricView, MetricView], phase: Phase
    ) -> list[float]:
        state = self.state
        state.num_records += 1
        is_bad = any(value is not None and not math.isfinite(value) for value in (loss, grad))
        state.not_finite = 1.0 if is_bad else _HEALING * state.not_finite
        level, lowest = views[0].level(), views[0].lowest()
        of_loss, of_grad = self._take_loss(loss, views[0]), self._take_grad(grad, views[1])
        lasting = median(sorted(state.losses)) if len(state.losses) == _NEW else math.nan
        return [
            of_loss.score,
            _second(state.loss_scores),
            median(sorted(state.loss_scores)) if state.loss_scores else 0.0,
            _rise(lasting, level, phase),
            _rise(lasting, lowest, phase),
            of_loss.over_record,
            _second(state.loss_pairs),
            max(0.0, _rise(loss, level, phase)) * min(1.0, of_loss.over_record),
            of_loss.drift,
            float(_is_flat(state.losses)),
            of_grad.score,
            _second(state.grad_scores),
            of_grad.over_record,
            state.not_finite,
            min(1.0, 10.0 * state.share_high),
            1.0 / (1.0 + state.num_records / _YOUNG_RECORDS),
        ]

    def _take_loss(self, loss: float | None, view: MetricView) -> Measure:
        if loss is None or not math.isfinite(loss):
            return NOT_MEASURED
        state, measure = self.state, _clipped(view.measure(loss))
        state.share_high = _FORGETTING * state.share_high + (1.0 - _FORGETTING) * (measure.score > _HIGH)
        state.loss_scores = [*state.loss_scores[1 - _NEW :], measure.score]
        state.losses = [*state.losses[1 - _NEW :], loss]
        state.loss_pairs = [*state.loss_pairs[1 - _PAIR :], measure.over_pairs]
        return measure

    def _take_grad(self, grad: float | None, view: MetricView) -> Measure:
        if grad is None or not math.isfinite(grad):
            return NOT_MEASURED
        measure = _clipped(view.measure(grad))
        self.state.grad_scores = [*self.state.grad_scores[1 - _PAIR :], measure.score]
        return measure


def _clipped(measure: Measure) -> Measure:
    score, *shares = measure
    return Measure(max(-_MOST_SCORE, min(_MOST_SCORE, score)), *(max(0.0, min(_MOST_SHARE, share)) for share in shares))


def _second(scores: list[float]) -> float:
    """The second largest of the last three; 0 while there are fewer."""
    newest = scores[-_PAIR:]
    return sorted(newest)[-2] if len(newest) == _PAIR else 0.0


def _rise(value: float | None, base: float, phase: Phase) -> float:
    """Relative to what the run has reached or come from; 0 where one of both is unknown."""
    if value is None or not math.isfinite(value - base):
        return 0.0
    return max(-_MOST_RISE, min(_MOST_RISE, phase.relative(value - base, base)))


def _is_flat(losses: list[float]) -> bool:
    return len(losses) == _NEW and max(losses) - min(losses) <= _FLAT * abs(losses[-1])
