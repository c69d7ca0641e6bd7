"""P(recover): how likely a run in an open incident heals by itself.

A logit over scale-free features. Its weights were set by hand on labelled public training logs and then fitted to the
same logs by a logistic regression that pulls towards them; terms that those logs hardly show kept their effect. A high
peak does not mean lost: what tells a lost run is non-finite values, a gradient that stays high, a level that does not
move, nothing being given back, and no healthy time before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_USUAL_EXCESS = math.log(3.0)
_USUAL_RISE = math.log(10.0)
_HUGE_GRAD = math.log(1000.0)
"""A norm above this has rarely come back, whatever the run was used to."""
_YOUNG_RECORDS = 60.0
_FAST = 0.1
"""A loss that closes this share of its gap in eight records is on its way back."""


@dataclass(frozen=True)
class RecoveryWeights:
    base: float = 3.4
    healed_before: float = -0.7
    non_finite_loss: float = -5.5
    non_finite_grad: float = -2.5
    grad_excess: float = -0.5
    grad_rise: float = -0.5
    grad_size: float = -2.6
    grad_closing: float = 0.4
    collapse: float = -4.5
    divergence: float = -1.8
    plateau: float = -4.2
    stuck: float = -4.2
    closing: float = -0.3
    given_back: float = 1.7
    still_above: float = -0.2
    youth: float = -3.9
    risen: float = -1.1
    lost_progress: float = -3.7


class RecoveryFeatures(NamedTuple):
    """Counts are over the last 10 records.

    Attributes:
        num_healed: earlier excursions of this run that healed.
        loss_non_finite: whether a non-finite loss may have reached the weights.
        num_non_finite_grads: non-finite gradient norms that may have.
        log_grad: ln of the median of the last 9 gradient norms, NaN where unknown.
        log_base_grad: ln of the gradient norm's baseline at the onset, NaN where unknown.
        num_records: records since the onset.
        given_back: share of the excursion that was given back, in [0, 1].
        still_above: (median of the last 3 losses - baseline) / max(|level|, a third of the starting level).
        is_plateau: whether the loss lies still above its baseline.
        is_stuck: whether nothing of the gap was closed lately, or the gradient norm stays high.
        lost_progress: share of what the run had learned that is lost at present, in [0, 2].
        closing: share of the gap that was closed between the last 8 losses and the 8 before; negative while it grows.
        grad_closing: ln of the median of the 8 gradient norms before the last 8 over that of the last 8.
        log_least_grad: ln of the lowest of the last 16 gradient norms, NaN where unknown.
        log_lowest_grad: ln of the lowest level of the gradient norm in this run, NaN where unknown.
        num_before: records of the run before the onset; few of them are no healthy state to go back to.
        risen: how far the last 3 losses are above the first 3 since the onset, in three scales, in [-1, 1].
        is_collapse: whether the loss is nothing, or one value.
        is_divergence: whether the loss slowly left the best level it had.
    """

    num_healed: int = 0
    loss_non_finite: bool = False
    num_non_finite_grads: int = 0
    log_grad: float = math.nan
    log_base_grad: float = math.nan
    num_records: int = 0
    given_back: float = 0.0
    still_above: float = 0.0
    is_plateau: bool = False
    is_stuck: bool = False
    lost_progress: float = 0.0
    closing: float = 0.0
    grad_closing: float = 0.0
    log_least_grad: float = math.nan
    log_lowest_grad: float = math.nan
    num_before: int = 1000
    risen: float = 0.0
    is_collapse: bool = False
    is_divergence: bool = False


class Estimate(NamedTuple):
    p_recover: float
    moved: dict[str, float]
    """The terms of the logit, by feature; they sum to it."""


def estimate(features: RecoveryFeatures, weights: RecoveryWeights) -> Estimate:
    """The probability and the terms that made it.

    >>> calm = RecoveryFeatures(num_records=10, given_back=1.0)
    >>> round(estimate(calm, RecoveryWeights()).p_recover, 3)
    0.994
    >>> round(estimate(calm._replace(loss_non_finite=True), RecoveryWeights()).p_recover, 3)
    0.401
    """
    maturity = min(1.0, features.num_records / 10.0)
    still_above = min(2.0, max(0.0, features.still_above))
    kept = 1.0 - features.given_back
    is_high = _above(features.log_grad, features.log_base_grad, _USUAL_EXCESS) > 0.0
    terms = {
        "base": weights.base,
        "healed_before": weights.healed_before * min(2, features.num_healed),
        "non_finite_loss": weights.non_finite_loss * features.loss_non_finite,
        "non_finite_grad": weights.non_finite_grad * min(1.0, features.num_non_finite_grads / 3.0),
        "grad_excess": weights.grad_excess * _above(features.log_least_grad, features.log_base_grad, _USUAL_EXCESS),
        "grad_rise": weights.grad_rise * _above(features.log_least_grad, features.log_lowest_grad, _USUAL_RISE),
        "grad_size": weights.grad_size * _above(features.log_grad, _HUGE_GRAD, 0.0),
        "grad_closing": weights.grad_closing * min(1.0, max(-1.0, features.grad_closing)) * is_high,
        "plateau": weights.plateau * features.is_plateau,
        "stuck": weights.stuck * features.is_stuck,
        "collapse": weights.collapse * features.is_collapse,
        "divergence": weights.divergence * features.is_divergence,
        "closing": weights.closing * maturity * min(1.0, max(-1.0, features.closing / _FAST)),
        "given_back": weights.given_back * maturity * features.given_back,
        "still_above": weights.still_above * maturity * still_above * kept,
        "youth": weights.youth * math.exp(-features.num_before / _YOUNG_RECORDS),
        "risen": weights.risen * maturity * features.risen,
        "lost_progress": weights.lost_progress * maturity * min(1.0, max(0.0, features.lost_progress)),
    }
    logit = max(-50.0, min(50.0, sum(terms.values())))
    moved = {name: round(term, 6) for name, term in terms.items() if term}
    return Estimate(1.0 / (1.0 + math.exp(-logit)), moved)


def _above(log_grad: float, log_base: float, usual: float) -> float:
    """How far the gradient is above its baseline and what is usual, in nats, at most 8; 0 where it is unknown."""
    if math.isnan(log_grad) or math.isnan(log_base):
        return 0.0
    return min(8.0, max(0.0, log_grad - log_base - usual))
