"""The matrix in its small form, on live runs: six faults, one seed, in shadow and under the policy of the claims."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from holter.infra.rescue.arm import SHADOW, Arm, ArmResult, run_arm
from holter.infra.rescue.lockstep import Pace
from holter.infra.rescue.matrix import Matrix, run
from holter.infra.rescue.results import Results
from holter.infra.rescue.score import Case, cases, score
from holter.infra.rescue.summary import summary

FAULTS = ("lr-burst", "bad-data", "nan-loss", "poisoned-moments", "bit-flip", "lr-burst-damaged-checkpoint")
MATRIX = Matrix(
    FAULTS, (SHADOW, "expected-cost"), seeds=(1,), steps_after=100, treats_healthy=False, measures_formula=False
)
PACE = Pace()

pytestmark = [pytest.mark.services, pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(tmp_path_factory.mktemp("rescue"), PACE)


@pytest.fixture(scope="module")
def judged(results: Results) -> list[Case]:
    return cases(run(MATRIX, results, PACE, 2, lambda arm, result: None), results.curve)


def test_what_is_lost_in_shadow_is_rescued(judged: list[Case]) -> None:
    said = score(judged, "expected-cost", PACE.step_seconds)
    assert said.lost_in_shadow >= 2  # a loss that is not a number and a flipped bit do not heal
    assert said.rescued_lost == said.lost_in_shadow


def test_the_treated_runs_end_nearer_to_the_unhurt_ones(judged: list[Case]) -> None:
    hurt = [case for case in judged if case.fault in FAULTS]
    assert sum(case.is_damaged("expected-cost") for case in hurt) < sum(case.is_damaged(SHADOW) for case in hurt)


def test_a_damaged_checkpoint_is_refused_and_the_next_older_one_taken(judged: list[Case]) -> None:
    (case,) = (case for case in judged if case.fault == "lr-burst-damaged-checkpoint")
    refused, applied = case.arms["expected-cost"].treatments
    assert (refused.status, applied.status) == ("refused", "applied")
    assert "SHA-256 differs" in refused.answer
    assert applied.lost_steps > 20


def test_nothing_is_done_in_shadow(judged: list[Case]) -> None:
    assert all(not case.arms[SHADOW].treatments for case in judged)


def test_all_arms_are_equal_up_to_the_fault(judged: list[Case]) -> None:
    for case in judged:
        assert {arm.curve[0] for arm in case.arms.values()} == {case.twin.curve[0]}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in the matrix's workers: the order of a sum depends on the threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_what_is_run_again_is_the_same_run(judged: list[Case], results: Results) -> None:
    plan = next(case.twin.arm.plan for case in judged if case.fault == "bit-flip")
    arm = Arm(plan, "bit-flip", "expected-cost")
    first, again = results.load(arm), run_arm(arm, results.prefix(plan), PACE)
    assert first is not None
    assert (again.final_loss, again.steps_lost) == (first.final_loss, first.steps_lost)
    assert [each.answered for each in again.treatments] == [each.answered for each in first.treatments]


def test_finished_arms_are_not_run_again(judged: list[Case], results: Results) -> None:
    told: list[ArmResult] = []
    again = run(MATRIX, results, PACE, 1, lambda arm, result: told.append(result))
    assert len(told) == len(again) == len(MATRIX.arms())


def test_the_summary_has_what_was_promised(judged: list[Case]) -> None:
    said = summary(judged, MATRIX.policies, PACE.step_seconds)
    assert {fault["name"] for fault in said["faults"]} == set(FAULTS)
    assert {fault["bound_to"] for fault in said["faults"]} == {"data position", "wall step"}
    promised = {"damaged_in_shadow", "rescued", "lost_in_shadow", "rescued_lost", "harmed_healthy",
                "needless_action_rate", "worse_than_shadow_rate", "regret_seconds"}  # fmt: skip
    for scores in said["policies"].values():
        assert promised <= scores.keys()
        assert math.isfinite(scores["regret_seconds"])
