"""What is damaged, rescued, harmed and regretted."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from holter.infra.rescue.score import Case, cases, score
from tests.infra.rescue.results import CURVE, result

pytestmark = pytest.mark.torch

POLICY = "expected-cost"
FAULT = "bit-flip"


def judged(shadow: float | None, treated: float | None, steps_lost: int = 0, fault: str = FAULT) -> list[Case]:
    arms = [
        result("healthy", "shadow", 2.0),
        result("healthy", POLICY, 2.0),
        result(fault, "shadow", shadow),
        result(fault, POLICY, treated, steps_lost=steps_lost, is_treated=True),
    ]
    return cases(arms, lambda twin: CURVE)


def test_most_of_the_gap_closed_is_a_rescue() -> None:
    said = score(judged(shadow=2.5, treated=2.09), POLICY, 0.5)
    assert (said.damaged_in_shadow, said.rescued, said.lost_in_shadow) == (1, 1, 0)


def test_three_quarters_of_the_gap_closed_is_none() -> None:
    assert score(judged(shadow=2.4, treated=2.1), POLICY, 0.5).rescued == 0


def test_a_small_gap_is_no_damage() -> None:
    assert score(judged(shadow=2.01, treated=2.0), POLICY, 0.5).damaged_in_shadow == 0


def test_a_gap_that_is_small_for_every_seed_is_judged_on_its_mean() -> None:
    said = score(judged(shadow=2.04, treated=2.005), POLICY, 0.5)
    assert (said.damaged_in_shadow, said.rescued) == (1, 1)


def test_what_gave_back_half_of_what_it_learned_is_lost() -> None:
    said = score(judged(shadow=3.6, treated=2.0), POLICY, 0.5)
    assert (said.lost_in_shadow, said.rescued_lost) == (1, 1)


def test_a_loss_that_is_not_finite_is_rescued_only_without_damage() -> None:
    assert score(judged(shadow=None, treated=2.04), POLICY, 0.5).rescued_lost == 1
    assert score(judged(shadow=None, treated=2.06), POLICY, 0.5).rescued_lost == 0


def test_an_action_without_gain_is_needless_and_a_loss_is_worse() -> None:
    said = score(judged(shadow=2.1, treated=2.13), POLICY, 0.5)
    assert (said.needless_action_rate, said.worse_than_shadow_rate) == (0.5, 0.5)  # one of the two runs is unhurt


def test_regret_is_the_way_to_the_best_arm_and_what_was_lost() -> None:
    said = score(judged(shadow=2.5, treated=2.1, steps_lost=40), POLICY, 0.5)
    assert said.regret_seconds == pytest.approx(0.5 * 40)  # it is the best arm
    assert score(judged(shadow=2.5, treated=2.1), "shadow", 0.5).regret_seconds == pytest.approx(0.5 * 80)


def test_an_unhurt_run_that_ends_worse_than_its_twin_is_harmed() -> None:
    arms = [result("healthy", "shadow", 2.0), result("healthy", POLICY, 2.03, is_treated=True)]
    assert score(cases(arms, lambda twin: CURVE), POLICY, 0.5).harmed_healthy == 1


def test_steps_from_the_fault_to_the_action_are_boundaries_after_the_struck_step() -> None:
    assert score(judged(shadow=2.5, treated=2.1), POLICY, 0.5).steps_to_applied == [4]
