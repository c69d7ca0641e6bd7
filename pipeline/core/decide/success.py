"""How likely a cure ends an incident: what is known of its cause, what helped on other runs and on this one.

A beta-binomial estimate: the three sources are counts of trials and successes, added up (Gelman et al., Bayesian Data
Analysis, 3rd ed., 2.4).
"""

from __future__ import annotations

from collections.abc import Mapping

from holter.pipeline.core.decide.course import Mover
from holter.schemas.bounds import EffectName, SignalKind
from holter.schemas.commands import Prior

_WEIGHT = 5.0
"""What is known of the cause counts for as many observations."""

_BY_CAUSE: dict[Mover, dict[EffectName, float]] = {
    "update": {"rollback": 0.95, "momentum_reset": 0.15, "lr_factor": 0.1, "clip_adjust": 0.1},
    "gradient": {"rollback": 0.95, "momentum_reset": 0.85, "lr_factor": 0.2, "clip_adjust": 0.6},
    "loss": {"rollback": 0.95, "momentum_reset": 0.1, "lr_factor": 0.1, "clip_adjust": 0.1},
    "unknown": {"rollback": 0.9, "momentum_reset": 0.2, "lr_factor": 0.2, "clip_adjust": 0.2},
}
"""From live runs of a small model hurt on purpose: halving the learning rate after a burst of it is harm."""


def success(
    mover: Mover,
    kind: SignalKind,
    effect: EffectName,
    own: Mapping[str, Prior],
    others: Mapping[str, Prior],
    most_weight: float,
) -> float:
    """Probability that the effect ends an incident of this cause and kind.

    ``others`` count for at most ``most_weight`` observations.

    >>> round(success("gradient", "grad_explosion", "momentum_reset", {}, {}, 20.0), 2)
    0.85
    >>> failed = {"grad_explosion/momentum_reset": Prior(5.0, 0.0)}
    >>> round(success("gradient", "grad_explosion", "momentum_reset", failed, {}, 20.0), 3)
    0.425
    """
    name = prior_name(kind, effect)
    here, there = own.get(name, _NONE), others.get(name, _NONE)
    share = min(1.0, most_weight / there.num) if there.num > 0.0 else 0.0
    num = _WEIGHT + here.num + share * there.num
    num_recovered = _WEIGHT * _BY_CAUSE[mover].get(effect, 0.1) + here.num_recovered + share * there.num_recovered
    return min(1.0, num_recovered / num)


def prior_name(kind: str, effect: str) -> str:
    return f"{kind}/{effect}"


_NONE = Prior(0.0, 0.0)
