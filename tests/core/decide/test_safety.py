"""What may be issued, and when."""

from __future__ import annotations

import pytest

from holter.pipeline.core.decide.safety import Outstanding, Safety, SafetySettings
from holter.schemas.bounds import Autonomy, EffectName
from holter.schemas.telemetry import Started
from tests.telemetry import ALL_EFFECTS

ROLLBACK: list[EffectName] = ["rollback", "skip_range"]


def safety(started: Started = ALL_EFFECTS) -> Safety:
    rules = Safety(SafetySettings())
    rules.begin_attempt(1)
    rules.started(started)
    return rules


def outstanding(ordinal: int = 1, expires_ts: int = 100) -> Outstanding:
    return Outstanding(f"action-{ordinal}", ordinal, expires_ts, 100, ROLLBACK, "incident")


def test_what_is_allowed_may_be_issued() -> None:
    assert safety().refusal(ROLLBACK, is_live=True) == ""
    assert safety().mode(ROLLBACK) == "auto"


def test_before_the_start_event_nothing_is() -> None:
    rules = Safety(SafetySettings())
    rules.begin_attempt(1)
    assert rules.refusal(ROLLBACK, is_live=True).startswith("the trainer cannot apply")


@pytest.mark.parametrize(("autonomy", "mode"), [("shadow", "shadow"), ("approve", "approve"), ("auto", "auto")])
def test_effects_go_as_far_as_the_least_free_of_them(autonomy: Autonomy, mode: Autonomy) -> None:
    started = Started(effects=ROLLBACK, allow=ROLLBACK, autonomy={"rollback": autonomy})
    assert safety(started).mode(ROLLBACK) == mode
    assert (safety(started).refusal(ROLLBACK, is_live=True) == "") == (mode == "auto")


def test_a_part_that_is_not_allowed_keeps_the_whole_back() -> None:
    started = Started(effects=ROLLBACK, allow=["rollback"])
    assert "skip_range is not allowed" in safety(started).refusal(ROLLBACK, is_live=True)


def test_old_records_cause_nothing() -> None:
    assert "old" in safety().refusal(ROLLBACK, is_live=False)


def test_one_is_outstanding_until_its_ack_or_its_expiry() -> None:
    rules = safety()
    rules.issued(outstanding())
    assert rules.refusal(ROLLBACK, is_live=True) == "an action is outstanding"
    rules.step(ts=101)
    assert rules.refusal(ROLLBACK, is_live=True) == ""


def test_executed_steps_count_the_cooldown() -> None:
    rules = safety()
    rules.issued(outstanding())
    assert rules.acknowledged("action-1", 1, 1) is not None
    for _ in range(49):
        rules.step(ts=1)
    assert "cooldown" in rules.refusal(ROLLBACK, is_live=True)
    rules.step(ts=1)
    assert rules.refusal(ROLLBACK, is_live=True) == ""


def test_an_answer_is_taken_once_and_an_unknown_one_adopted() -> None:
    rules = safety()
    assert rules.acknowledged("action-7", 7, 1) is None
    assert rules.state.ordinal == 7
    rules.issued(outstanding(8))
    assert rules.acknowledged("action-8", 8, 1) is not None
    assert rules.acknowledged("action-8", 8, 1) is None


def test_a_new_attempt_counts_ordinals_anew_and_keeps_what_is_outstanding() -> None:
    rules = safety()
    rules.issued(outstanding())
    rules.begin_attempt(2)
    assert rules.state.ordinal == 0
    assert rules.acknowledged("action-1", 1, 1) is not None
    assert rules.state.ordinal == 0
