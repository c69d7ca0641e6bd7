"""What may be issued, and when."""

from __future__ import annotations

import msgspec
import pytest

from holter.pipeline.core.decide.safety import Outstanding, Price, Safety, SafetySettings, SafetyState
from holter.schemas.bounds import AckStatus, Autonomy, EffectName
from holter.schemas.control import LrFactor
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


def applied(rules: Safety, num: int, status: AckStatus = "applied", every_steps: int = 60, lost_steps: int = 0) -> None:
    for _ in range(num):
        ordinal = rules.state.ordinal + 1
        rules.issued(outstanding(ordinal))
        rules.acknowledged(f"action-{ordinal}", ordinal, 1, status, lost_steps)
        for _ in range(every_steps):
            rules.step(ts=1)


def test_so_many_in_1000_steps_and_no_more() -> None:
    rules = safety()
    applied(rules, 4)
    assert rules.refusal(ROLLBACK, is_live=True) == ""
    applied(rules, 1)
    assert rules.refusal(ROLLBACK, is_live=True) == "the last 1,000 steps have had their 5 actions"
    for _ in range(700):
        rules.step(ts=1)
    assert rules.refusal(ROLLBACK, is_live=True) == ""


def test_so_many_in_a_run() -> None:
    rules = safety()
    applied(rules, 30, every_steps=500)
    assert rules.refusal(ROLLBACK, is_live=True) == "the run has had its 30 actions"


@pytest.mark.parametrize("status", ["refused", "expired"])
def test_what_was_not_applied_does_not_count(status: AckStatus) -> None:
    rules = safety()
    applied(rules, 40, status, lost_steps=100)
    assert rules.refusal(ROLLBACK, is_live=True, price=Price(2_999)) == ""


def test_lost_steps_and_seconds_have_a_budget() -> None:
    rules = safety()
    applied(rules, 2, lost_steps=1_400)
    assert rules.refusal(ROLLBACK, True, Price(200)) == ""
    assert rules.refusal(ROLLBACK, True, Price(201)) == "the budget of 3000 lost steps: 2800 are used up"
    assert "budget of 14400 seconds" in rules.refusal(ROLLBACK, True, Price(1, 14_401.0))
    assert rules.refusal(["momentum_reset"], True) == ""


def test_gpu_seconds_are_job_seconds_on_all_ranks() -> None:
    rules = Safety(SafetySettings(max_lost_gpu_seconds=1_000.0, cooldown_steps=0))
    rules.begin_attempt(1)
    rules.started(msgspec.structs.replace(ALL_EFFECTS, num_ranks=64))
    assert rules.refusal(ROLLBACK, True, Price(1, 15.0)) == ""
    assert "budget of 1000 GPU-seconds: 0 are used up" in rules.refusal(ROLLBACK, True, Price(1, 16.0))
    rules.issued(Outstanding("action-1", 1, 10_000, 5_000, ["rollback"], "incident", lost_seconds=15.0))
    rules.acknowledged("action-1", 1, 1)
    assert "960 are used up" in rules.refusal(ROLLBACK, True, Price(1, 1.0))


def test_a_learning_rate_factor_has_a_floor_and_a_ceiling() -> None:
    rules = Safety(SafetySettings(lr_floor=0.2, lr_ceiling=0.9))
    assert rules.out_of_bounds([LrFactor(0.1)]) == "a learning-rate factor of 0.1 is outside 0.2 to 0.9"
    assert rules.out_of_bounds([LrFactor(1.0)])
    assert rules.out_of_bounds([LrFactor(0.2), LrFactor(0.9)]) == ""


def test_where_the_weights_hold_no_numbers_the_cooldown_is_short_but_not_after_a_refusal() -> None:
    for status, expected in (("applied", ""), ("refused", "cooldown of 50 steps")):
        rules = safety()
        applied(rules, 1, status, every_steps=5)  # type: ignore[arg-type]
        assert rules.refusal(ROLLBACK, True, Price(is_urgent=True)) == expected
        assert rules.refusal(ROLLBACK, True) == "cooldown of 50 steps"


def test_rollbacks_are_counted_by_checkpoint_and_kind() -> None:
    rules = safety()
    for ordinal, kind in ((1, "nan"), (2, "loss_spike"), (3, "nan")):
        rules.issued(Outstanding(f"action-{ordinal}", ordinal, 100, 100, ROLLBACK, "i", "step-80", kind))
        rules.acknowledged(f"action-{ordinal}", ordinal, 1)
    assert rules.num_tried("nan") == {"step-80": 2}
    assert rules.num_tried("plateau") == {}


def test_policies_choose_from_what_is_allowed_or_in_shadow_from_all() -> None:
    assert Safety(SafetySettings()).applicable() is None
    assert safety(Started(effects=ROLLBACK, allow=["nan_guard"])).applicable() == ROLLBACK
    assert safety(Started(effects=[*ROLLBACK, "stop"], allow=["stop"])).applicable() == ["stop"]


def test_the_state_of_an_earlier_release_is_read() -> None:
    old = {"attempt": 3, "ordinal": 2, "num_executed": 7, "handled": ["a"], "effects": ROLLBACK, "allow": ROLLBACK}
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=SafetyState)
    assert Safety(SafetySettings(), state).refusal(ROLLBACK, is_live=True) == ""
