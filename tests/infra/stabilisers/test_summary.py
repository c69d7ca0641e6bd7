from __future__ import annotations

import math

import pytest

from holter.infra.stabilisers.ordering import Recovery, RecoveryResult, Remedy
from holter.infra.stabilisers.setting import FaultName
from holter.infra.stabilisers.summary import cost_of, figures, losses, ordering_verdict, recovery_steps, remedies
from holter.infra.stabilisers.trial import Trial, TrialResult

pytestmark = pytest.mark.torch


def ended(loss: float | None, recovery_steps: int | None = None) -> TrialResult:
    return TrialResult(loss, 0, 0, recovery_steps, 1.0)


def trials(arm: str, fault: FaultName, values: list[float | None], beta2: float = 0.999) -> dict[Trial, TrialResult]:
    return {Trial(arm, fault, beta2, seed): ended(value) for seed, value in enumerate(values)}


def test_a_fault_costs_what_the_same_seed_lost_by_it() -> None:
    known = trials("zclip", "clean", [2.0, 3.0]) | trials("zclip", "gradient", [2.1, 3.3])
    cost = cost_of(known, "zclip", "gradient", 0.999)
    assert cost is not None
    assert (cost.mean, cost.num_seeds) == (pytest.approx(0.2), 2)
    assert cost_of(known, "zclip", "data", 0.999) is None


def test_a_lost_run_makes_the_mean_infinite_and_the_target_missed() -> None:
    known = trials("zclip", "clean", [2.0, 3.0]) | trials("zclip", "gradient", [2.0, None])
    assert losses(known)["zclip", "gradient", 0.999].mean == math.inf
    assert [figure.met for figure in figures(known)] == [False]


def test_gradient_clippers_have_a_target_and_the_unclipped_run_has_none() -> None:
    known: dict[Trial, TrialResult] = {}
    for arm, after in (("none", 2.3), ("adagc", 2.005), ("agc", 2.02)):
        known |= trials(arm, "clean", [2.0]) | trials(arm, "gradient", [after])
    assert {figure.name: figure.met for figure in figures(known)} == {
        "gradient_x1000_cost_none": None,
        "gradient_x1000_cost_agc": False,
        "gradient_x1000_cost_adagc": True,
    }


@pytest.mark.parametrize(("rollback", "above", "is_met"), [(2.1, 0.0, True), (2.208, 0.008, True), (2.3, 0.1, False)])
def test_after_a_burst_the_better_of_clippy_and_rollback_is_held_against_the_best(
    rollback: float, above: float, is_met: bool
) -> None:
    known = trials("agc", "lr", [2.2], 0.95) | trials("clippy", "lr", [2.4], 0.95)
    (figure,) = figures(known | trials("rollback", "lr", [rollback], 0.95))
    assert (figure.value, figure.met) == (pytest.approx(above), is_met)


def test_arms_are_ranked_by_the_seeds_that_all_have() -> None:
    known = trials("clippy", "lr", [2.1, 9.0], 0.95) | trials("none", "lr", [2.2], 0.95)
    (figure,) = figures(known)
    assert figure.note.endswith("best first: Clippy-AdamW .5/.01, unclipped")


def test_seeds_that_never_came_back_are_counted_apart() -> None:
    known = {Trial("none", "lr", 0.95, seed): ended(2.0, steps) for seed, steps in enumerate((10, 30, None))}
    assert recovery_steps(known, "none", 0.95) == (20.0, 1)


def recoveries(levels: dict[Remedy, list[float]]) -> dict[Recovery, RecoveryResult]:
    return {
        Recovery(remedy, seed): RecoveryResult(2.0, [level], level, 1.0)
        for remedy, values in levels.items()
        for seed, level in enumerate(values)
    }


def test_the_published_order_shows_only_where_it_is_above_the_noise() -> None:
    clear = recoveries({"random": [4.0, 4.1], "copy": [3.0, 3.1], "average": [2.0, 2.1], "weighted": [1.0, 1.1]})
    assert ordering_verdict(remedies(clear)).startswith("shows")
    noisy = recoveries({"random": [4.0, 4.1], "copy": [3.0, 3.1], "average": [2.0, 2.1], "weighted": [1.95, 2.1]})
    assert "average > weighted" in ordering_verdict(remedies(noisy))
    few = recoveries({"random": [4.0], "copy": [3.0], "average": [2.0], "weighted": [1.0]})
    assert ordering_verdict(remedies(few)) == "not decided: too few seeds"
