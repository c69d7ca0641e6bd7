from __future__ import annotations

import math
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.core.recovery import RecoveryFeatures, RecoveryWeights, estimate
from holter.pipeline.fit.design import TERMS, design_of, terms_of
from holter.pipeline.fit.errors import TooFewIncidents
from holter.pipeline.fit.incidents import ClosedIncident
from holter.pipeline.fit.logistic import fit_logistic
from holter.pipeline.fit.refit import FitSettings, folds_of, refit
from tests.fit.incidents import made_incidents, some_features

SHIPPED = RecoveryWeights()
TRUE = replace(SHIPPED, base=4.0, given_back=2.5, stuck=-1.0, non_finite_loss=-3.0, grad_excess=-0.5)


@given(seed=st.integers(0, 10_000), changes=st.lists(st.floats(-2.0, 2.0), min_size=len(TERMS), max_size=len(TERMS)))
def test_the_estimate_is_its_terms_times_its_weights(seed: int, changes: list[float]) -> None:
    """What makes a linear fit of the coefficients the fit of the estimate."""
    features = some_features(random.Random(seed))
    weights = RecoveryWeights(**dict(zip(TERMS, changes, strict=True)))
    said = estimate(RecoveryFeatures(**features), weights).p_recover  # type: ignore[arg-type]
    logit = float(np.dot(terms_of(features), changes))
    assert said == pytest.approx(1.0 / (1.0 + math.exp(-logit)), abs=1e-4)


def test_every_term_of_the_estimate_can_be_fitted() -> None:
    chance = random.Random(1)
    terms = np.array([terms_of(some_features(chance)) for _ in range(200)])
    assert np.linalg.matrix_rank(terms) == len(TERMS)


def test_names_that_are_not_known_and_values_that_are_not_either_are_ignored() -> None:
    features = {"num_records": 10.0, "given_back": 1.0}
    assert terms_of({**features, "of_a_later_version": 3.0, "log_grad": math.nan}) == terms_of(features)


def test_the_coefficients_that_made_the_outcomes_are_found() -> None:
    fitted = refit(made_incidents(TRUE, 4000), SHIPPED, FitSettings(ridge=0.1))
    for name, true in asdict(TRUE).items():
        assert asdict(fitted.weights)[name] == pytest.approx(true, abs=0.5), name
    scores = fitted.scores
    assert scores.fitted < scores.before < scores.base_rate
    assert scores.fitted_cross_validated == pytest.approx(scores.fitted, abs=0.005)


def test_what_is_said_happens_as_often() -> None:
    fitted = refit(made_incidents(TRUE, 3000), SHIPPED)
    assert sum(row.num_incidents for row in fitted.reliability) == pytest.approx(3000)
    for row in fitted.reliability:
        assert row.low <= row.forecast <= row.high
        chance = math.sqrt(row.forecast * (1.0 - row.forecast) / row.num_incidents)
        assert row.healed == pytest.approx(row.forecast, abs=0.02 + 4.0 * chance)


def test_few_incidents_move_little_and_a_strong_pull_moves_nothing() -> None:
    incidents = made_incidents(TRUE, 60)
    held = refit(incidents, SHIPPED, FitSettings(ridge=1e9)).weights
    assert list(asdict(held).values()) == pytest.approx(list(asdict(SHIPPED).values()), abs=1e-4)
    moved = [_distance(refit(incidents, SHIPPED, FitSettings(ridge=ridge)).weights) for ridge in (10.0, 1.0, 0.1)]
    assert moved == sorted(moved)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_fit_is_where_the_slope_of_its_loss_is_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=(50, 3))
    healed, weight = (rng.random(50) < 0.5).astype(float), rng.random(50)
    prior = rng.normal(size=3)
    found = fit_logistic(terms, healed, weight, prior, ridge=2.0)
    errors = 1.0 / (1.0 + np.exp(-terms @ found)) - healed
    assert terms.T @ (weight * errors) + 2.0 * (found - prior) == pytest.approx(np.zeros(3), abs=1e-4)


def test_an_incident_counts_once_however_many_records_it_has() -> None:
    few = [ClosedIncident("a", True, [{"num_records": 1.0}]), ClosedIncident("b", False, [{"num_records": 2.0}] * 9)]
    design = design_of(few)
    assert design.weight.sum() == pytest.approx(2.0)
    assert design.weight[0] == pytest.approx(design.weight[1:].sum())


@pytest.mark.parametrize(("num_healed", "num_lost"), [(19, 0), (10, 9), (40, 4), (4, 40), (0, 0)])
def test_too_few_are_refused_with_their_numbers(num_healed: int, num_lost: int) -> None:
    ends = [True] * num_healed + [False] * num_lost
    incidents = [ClosedIncident("run", healed, [{"num_records": 1.0}]) for healed in ends]
    with pytest.raises(TooFewIncidents, match=f"{num_healed} incidents healed and {num_lost} were lost"):
        refit(incidents, SHIPPED)


def test_of_one_group_nothing_is_claimed_about_others() -> None:
    fitted = refit(made_incidents(SHIPPED, 200, num_groups=1), SHIPPED)
    assert fitted.scores.fitted_cross_validated is None
    assert fitted.scores.base_rate_cross_validated is None


def test_a_group_that_is_left_out_teaches_nothing_about_itself() -> None:
    """Two groups with opposite outcomes: each is forecast by the other, so wrongly."""
    records = [{"num_records": 10.0, "given_back": 1.0}]
    incidents = [ClosedIncident(group, group == "calm", records) for group in ("calm", "wild") for _ in range(30)]
    scores = refit(incidents, RecoveryWeights(base=0.0, given_back=0.0), FitSettings(ridge=0.01)).scores
    assert scores.fitted == pytest.approx(0.25, abs=0.01)
    assert scores.fitted_cross_validated is not None
    assert scores.fitted_cross_validated > 0.8


@given(groups=st.lists(st.sampled_from("abcdefghij"), max_size=40), max_folds=st.integers(1, 12))
def test_folds_part_the_groups(groups: list[str], max_folds: int) -> None:
    folds = folds_of(groups, max_folds)
    assert sorted(group for fold in folds for group in fold) == sorted(set(groups))
    assert len(folds) == min(max_folds, len(set(groups)))
    assert all(folds)


def _distance(weights: RecoveryWeights) -> float:
    return sum((asdict(weights)[name] - shipped) ** 2 for name, shipped in asdict(SHIPPED).items())
