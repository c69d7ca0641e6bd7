"""P(recover) fitted anew, and how much better that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.fit.calibration import Reliability, base_rate, brier_score, reliability_table
from holter.pipeline.fit.design import Design, Flags, Floats, coefficients_of, design_of, weights_of
from holter.pipeline.fit.errors import TooFewIncidents
from holter.pipeline.fit.incidents import ClosedIncident
from holter.pipeline.fit.logistic import fit_logistic, logistic


@dataclass(frozen=True)
class FitSettings:
    ridge: float = 10.0
    """Strength of the pull towards the shipped coefficients: 1 / variance of the prior of each. Of .1 to 100 this did
    best on groups left out of some 60 incidents of labelled public logs, by little."""
    min_incidents: int = 20
    min_of_each_outcome: int = 5
    max_folds: int = 10


@dataclass(frozen=True)
class Scores:
    """Brier scores. Cross-validated ones are of forecasts for groups that were left out; None where there is one group.

    Attributes:
        before: of the coefficients that were fitted from.
        base_rate: of always saying the share that healed.
    """

    before: float
    fitted: float
    base_rate: float
    fitted_cross_validated: float | None
    base_rate_cross_validated: float | None


@dataclass(frozen=True)
class Refit:
    """``reliability`` is of cross-validated forecasts where there are any."""

    weights: RecoveryWeights
    scores: Scores
    reliability: list[Reliability]
    num_healed: int
    num_lost: int
    num_groups: int
    num_records: int


def refit(incidents: Sequence[ClosedIncident], shipped: RecoveryWeights, settings: FitSettings | None = None) -> Refit:
    """Raises:
    TooFewIncidents: with the numbers there are and the numbers it takes.
    """
    settings = settings or FitSettings()
    num_healed = sum(incident.healed for incident in incidents)
    _require_enough(num_healed, len(incidents) - num_healed, settings)
    design = design_of(incidents)
    prior = coefficients_of(shipped)
    coefficients = _fit(design, np.ones(len(design.healed), np.bool_), prior, settings)
    outside = _cross_validated(design, prior, settings)
    fitted = logistic(design.terms @ coefficients)
    return Refit(
        weights=weights_of(coefficients),
        scores=_scores(design, prior, fitted, outside),
        reliability=reliability_table(fitted if outside is None else outside.fitted, design.healed, design.weight),
        num_healed=num_healed,
        num_lost=len(incidents) - num_healed,
        num_groups=len(set(design.groups)),
        num_records=len(design.healed),
    )


@dataclass(frozen=True)
class _Outside:
    """Forecasts of the records of each group by what the other groups taught."""

    fitted: Floats
    base_rate: Floats


def _require_enough(num_healed: int, num_lost: int, settings: FitSettings) -> None:
    least = settings.min_of_each_outcome
    if num_healed + num_lost < settings.min_incidents or min(num_healed, num_lost) < least:
        raise TooFewIncidents(
            f"{num_healed} incidents healed and {num_lost} were lost; a fit needs {settings.min_incidents}, "
            f"and {least} of each: keep the shipped coefficients until more have closed"
        )


def _fit(design: Design, used: Flags, prior: Floats, settings: FitSettings) -> Floats:
    return fit_logistic(design.terms[used], design.healed[used], design.weight[used], prior, settings.ridge)


def _cross_validated(design: Design, prior: Floats, settings: FitSettings) -> _Outside | None:
    folds = folds_of(design.groups, settings.max_folds)
    if len(folds) < 2:
        return None
    outside = _Outside(np.empty_like(design.healed), np.empty_like(design.healed))
    for fold in folds:
        left_out = design.of_groups(fold)
        coefficients = _fit(design, ~left_out, prior, settings)
        outside.fitted[left_out] = logistic(design.terms[left_out] @ coefficients)
        outside.base_rate[left_out] = base_rate(design.healed[~left_out], design.weight[~left_out])
    return outside


def folds_of(groups: Sequence[str], max_folds: int) -> list[set[str]]:
    """Groups dealt to at most ``max_folds`` folds, the greatest first, each to the fold with the fewest incidents.

    >>> [sorted(fold) for fold in folds_of(["a", "a", "a", "b", "c", "d"], 2)]
    [['a'], ['b', 'c', 'd']]
    """
    sizes = sorted(Counter(groups).items(), key=lambda item: (-item[1], item[0]))
    folds: list[set[str]] = [set() for _ in range(min(max_folds, len(sizes)))]
    filled = [0] * len(folds)
    for group, size in sizes:
        least = filled.index(min(filled))
        folds[least].add(group)
        filled[least] += size
    return folds


def _scores(design: Design, prior: Floats, fitted: Floats, outside: _Outside | None) -> Scores:
    healed, weight = design.healed, design.weight
    always = np.full_like(healed, base_rate(healed, weight))
    return Scores(
        before=brier_score(logistic(design.terms @ prior), healed, weight),
        fitted=brier_score(fitted, healed, weight),
        base_rate=brier_score(always, healed, weight),
        fitted_cross_validated=None if outside is None else brier_score(outside.fitted, healed, weight),
        base_rate_cross_validated=None if outside is None else brier_score(outside.base_rate, healed, weight),
    )
