"""P(recover): how likely a run in an open incident heals by itself.

A logit over scale-free features. Its weights were set by hand on labelled public training logs; a high peak does not
mean lost, what tells a lost run is non-finite values, a gradient that stays high, and nothing being given back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class RecoveryWeights:
    base: float = 2.2
    healed_before: float = 0.4
    non_finite_loss: float = -4.5
    non_finite_grad: float = -2.5
    grad_excess: float = -1.0
    given_back: float = 0.8
    still_above: float = -0.5


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
    """

    num_healed: int
    loss_non_finite: bool
    num_non_finite_grads: int
    log_grad: float
    log_base_grad: float
    num_records: int
    given_back: float
    still_above: float


class Estimate(NamedTuple):
    p_recover: float
    moved: dict[str, float]
    """The terms of the logit, by feature; they sum to it."""


def estimate(features: RecoveryFeatures, weights: RecoveryWeights) -> Estimate:
    """The probability and the terms that made it.

    >>> calm = RecoveryFeatures(0, False, 0, 0.0, 0.0, 10, 1.0, 0.0)
    >>> round(estimate(calm, RecoveryWeights()).p_recover, 3)
    0.953
    >>> round(estimate(calm._replace(loss_non_finite=True), RecoveryWeights()).p_recover, 3)
    0.182
    """
    maturity = min(1.0, features.num_records / 10.0)
    still_above = min(2.0, max(0.0, features.still_above))
    terms = {
        "base": weights.base,
        "healed_before": weights.healed_before * min(2, features.num_healed),
        "non_finite_loss": weights.non_finite_loss * features.loss_non_finite,
        "non_finite_grad": weights.non_finite_grad * min(1.0, features.num_non_finite_grads / 3.0),
        "grad_excess": weights.grad_excess * _grad_excess(features.log_grad, features.log_base_grad),
        "given_back": weights.given_back * maturity * features.given_back,
        "still_above": weights.still_above * maturity * still_above * (1.0 - features.given_back),
    }
    logit = sum(terms.values())
    moved = {name: round(term, 6) for name, term in terms.items() if term}
    return Estimate(1.0 / (1.0 + math.exp(-logit)), moved)


def _grad_excess(log_grad: float, log_base_grad: float) -> float:
    """How far the gradient is above both 20 and its own baseline, in nats, at most 8; 0 where it is unknown."""
    if math.isnan(log_grad):
        return 0.0
    base = math.log(20.0)
    if not math.isnan(log_base_grad):
        base = max(base, log_base_grad)
    return min(8.0, max(0.0, log_grad - base))
