"""What people order: carried out once, checked again, answered."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.schemas import encode, topics
from holter.schemas.bounds import EffectName
from holter.schemas.commands import Act, Approve, Hold, Policy, Prior, Reject, Release
from holter.schemas.control import LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.decisions import Decision
from holter.schemas.digests import digest
from holter.schemas.telemetry import CheckpointQuarantined, EffectReport, Finished, Parent, Started
from tests.core.test_run_operator import ISSUER, PERSON, Loop, calm_rows, healthy_run
from tests.telemetry import ALL_EFFECTS, START_MS

WHO = ("gpt", "night")
BY_APPROVAL = Started(
    effects=ALL_EFFECTS.effects, allow=ALL_EFFECTS.allow, autonomy={"rollback": "approve", "lr_factor": "shadow"}
)
MINUTES_MS = 60_000


def order(loop: Loop, command: Act | Approve | Reject | Policy) -> Decision:
    """Sends it signed; returns what watch answered."""
    loop.send(PERSON.sign(encode(command)), topics.COMMANDS)
    return loop.decisions()[-1]


def proposal(loop: Loop) -> Decision:
    """Hurts the run so that going back is proposed."""
    loop.step(loss=math.nan)
    decision = loop.decisions()[-1]
    assert decision.held == "waits for approval"
    return decision


def approval(decision: Decision, ts: int = START_MS, digest_: str | None = None) -> Approve:
    return Approve(*WHO, decision.id, decision.digest if digest_ is None else digest_, "ada", ts)


def act(*effects: LrFactor | MomentumReset | Rollback, ts: int = START_MS) -> Act:
    return Act(*WHO, list(effects), "ada", ts, "too hot")


def test_what_needs_approval_is_proposed_with_the_digest_of_its_bytes_and_not_issued() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    assert (decision.choice, decision.mode, decision.action) == ("rollback", "approve", "")
    assert len(decision.digest) == 32
    assert loop.actions() == []


def test_an_approved_action_is_sent_as_the_person_saw_it() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    loop.step(loss=math.nan)
    answer = order(loop, approval(decision))
    (action,) = loop.actions()
    assert digest(encode(action)) == decision.digest
    assert action.effects == [Rollback("step-49", 49), SkipRange(99)]
    assert action.authority == "approval"
    assert (answer.choice, answer.answer, answer.person, answer.answers) == ("approve", "done", "ada", decision.id)
    assert answer.action == action.id


def test_an_approval_is_used_once() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    signed = PERSON.sign(encode(approval(decision)))
    for _ in range(3):
        loop.send(signed, topics.COMMANDS)
    again = order(loop, approval(decision, START_MS + 1))
    assert len(loop.actions()) == 1
    assert again.answer == "stale"


def test_an_approval_of_other_bytes_is_refused() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    answer = order(loop, approval(proposal(loop), digest_="ab" * 16))
    assert (answer.answer, answer.held) == ("refused", "the digest is that of another action")
    assert loop.actions() == []


def test_an_approval_after_the_incident_is_stale() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    loop.send(loop.trainer.event(Finished()))
    answer = order(loop, approval(decision))
    assert answer.answer == "stale"
    assert loop.actions() == []


def test_an_approval_in_a_later_attempt_is_stale() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    loop.trainer.go_back(49)
    loop.send(loop.trainer.event(Started(effects=ALL_EFFECTS.effects, allow=ALL_EFFECTS.allow, parent=Parent(1, 49))))
    assert order(loop, approval(decision)).answer == "stale"
    assert loop.actions() == []


def test_an_approval_of_a_checkpoint_that_was_set_aside_is_stale() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    loop.send(loop.trainer.event(CheckpointQuarantined("step-49", "SHA-256 differs")))
    assert order(loop, approval(decision)).held == "its checkpoint was set aside"
    assert loop.actions() == []


@pytest.mark.parametrize("minutes", [-11, 11])
def test_an_order_of_another_time_is_stale(minutes: int) -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    answer = order(loop, approval(proposal(loop), START_MS + minutes * MINUTES_MS))
    assert answer.answer == "stale"
    assert "the limit is 600 s" in answer.held
    assert loop.actions() == []


def test_a_proposal_outlives_a_restart_of_watch() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    loop.restart()
    assert order(loop, approval(decision)).answer == "done"
    assert len(loop.actions()) == 1


def test_a_rejected_action_is_not_proposed_again_for_its_incident() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    answer = order(loop, Reject(*WHO, decision.id, "ada", START_MS))
    assert answer.answer == "done"
    for _ in range(5):
        loop.step(loss=math.nan)
    assert loop.decisions()[-1].held == "a person rejected it"
    assert order(loop, approval(decision)).answer == "stale"
    assert loop.actions() == []


def test_a_hold_keeps_back_what_is_approved() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    decision = proposal(loop)
    loop.send(PERSON.sign(encode(Hold(*WHO, "bob", START_MS))), topics.HOLDS)
    answer = order(loop, approval(decision))
    assert (answer.answer, answer.held) == ("refused", "the run is on hold")
    assert loop.actions() == []


def test_an_older_release_does_not_end_a_newer_hold() -> None:
    loop = healthy_run()
    for command in (Hold(*WHO, "ada", START_MS + 2), Release(*WHO, "bob", START_MS + 1)):
        loop.send(PERSON.sign(encode(command)), topics.HOLDS)
    assert [decision.answer for decision in loop.decisions()] == ["done", "stale"]
    loop.step(loss=math.nan)
    assert loop.actions() == []


def test_a_hold_outlives_what_is_forgotten_of_a_run() -> None:
    loop = healthy_run()
    loop.send(PERSON.sign(encode(Hold(*WHO, "ada", START_MS))), topics.HOLDS)
    loop.send(loop.trainer.event(Finished()))
    loop.driver.fire_timers(loop.trainer.now() + 3_600_000)
    loop.restart()
    loop.trainer.go_back(0)
    loop.send(loop.trainer.event(ALL_EFFECTS))
    answer = order(loop, act(MomentumReset()))
    assert answer.held == "the run is on hold"


def test_a_person_acts_where_there_is_no_incident() -> None:
    loop = healthy_run()
    answer = order(loop, act(LrFactor(0.5)))
    (action,) = loop.actions()
    assert (action.effects, action.authority, action.ordinal) == ([LrFactor(0.5)], "person", 1)
    assert action.reason == "ada: too hot"
    assert (answer.choice, answer.answer, answer.action) == ("act", "done", action.id)


def test_a_persons_action_takes_the_place_of_the_outstanding_one() -> None:
    loop = healthy_run()
    loop.step(loss=math.nan)
    answer = order(loop, act(MomentumReset()))
    automatic, ordered = loop.actions()
    assert (automatic.ordinal, ordered.ordinal) == (1, 2)
    assert automatic.id in answer.reason
    loop.send(loop.trainer.ack(automatic, status="refused"))
    loop.step(loss=math.nan)
    assert len(loop.actions()) == 2
    loop.send(loop.trainer.ack(ordered, effects=[EffectReport("momentum_reset")]))


def test_a_rollback_that_names_no_checkpoint_goes_to_the_newest_healthy_one() -> None:
    loop = healthy_run()
    order(loop, act(Rollback("", 0)))
    assert loop.actions()[0].effects == [Rollback("step-49", 49)]


def test_a_blind_watch_issues_nothing_until_it_hears_of_a_run_again() -> None:
    loop = healthy_run()
    late = loop.trainer.now() + 2 * MINUTES_MS
    loop.driver.fire_timers(late)
    assert [signal.kind for signal in loop.decoded(topics.SIGNALS)] == ["blind"]  # type: ignore[attr-defined]
    assert order(loop, act(MomentumReset())).held == "`watch` is blind: nothing is heard of any run"
    assert loop.actions() == []
    loop.step(loss=math.nan)
    assert [type(action.effects[0]) for action in loop.actions()] == [Rollback]
    assert order(loop, act(MomentumReset(), ts=START_MS + 1)).answer == "done"


def test_what_the_trainer_does_not_allow_nobody_may_order() -> None:
    loop = healthy_run(allow=Started(effects=ALL_EFFECTS.effects, allow=["rollback", "skip_range"]))
    assert order(loop, act(MomentumReset())).held == "shadow: momentum_reset is not allowed"
    assert order(loop, act(Rollback("", 0))).answer == "done"
    assert len(loop.actions()) == 1


def test_an_order_signed_with_another_key_is_set_aside() -> None:
    loop = healthy_run()
    loop.send(ISSUER.sign(encode(act(MomentumReset()))), topics.COMMANDS)
    assert [letter.reason for letter in loop.decoded(topics.DLQ)] == ["wrong_role"]  # type: ignore[attr-defined]
    assert loop.actions() == []


def policy(autonomy: dict[EffectName, str] | None = None, ts: int = START_MS, **settings: float) -> Policy:
    numbers = {name.replace("__", "."): value for name, value in settings.items()}
    return Policy(*WHO, "ada", ts, autonomy=autonomy or {}, settings=numbers)  # type: ignore[arg-type]


def test_autonomy_given_by_command_outlives_a_rollback() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    assert order(loop, policy({"rollback": "auto"})).answer == "done"
    loop.trainer.go_back(60)
    loop.send(loop.trainer.event(msgspec.structs.replace(BY_APPROVAL, parent=Parent(1, 60))))
    loop.steps(calm_rows(30, seed=7))
    loop.step(loss=math.nan)
    (action,) = loop.actions()
    assert action.authority == "policy"


def test_what_is_freed_while_it_waits_is_issued() -> None:
    loop = healthy_run(allow=BY_APPROVAL)
    proposal(loop)
    order(loop, policy({"rollback": "auto"}))
    loop.step(loss=math.nan)
    assert [action.authority for action in loop.actions()] == ["policy"]


def test_a_wrong_setting_changes_nothing_and_says_what_would_do() -> None:
    loop = healthy_run()
    answer = order(loop, policy(safety__cooldown_steps=10, cost__lr_cut=7.0))
    assert (answer.answer, answer.held) == ("refused", "cost.lr_cut is 7, it must be from 0.1 to 1")
    assert "there is no setting 'safety.speed'" in order(loop, policy(ts=START_MS + 1, safety__speed=1.0)).held


def test_an_older_policy_is_stale() -> None:
    loop = healthy_run()
    assert order(loop, policy(ts=START_MS + 5)).answer == "done"
    assert order(loop, policy(ts=START_MS + 4)).answer == "stale"


def test_a_setting_given_by_command_holds_and_outlives_a_restart() -> None:
    loop = healthy_run("report")
    order(loop, policy(safety__cooldown_steps=3))
    loop.restart()
    loop.step(loss=math.nan)
    loop.send(loop.trainer.ack(loop.actions()[0], status="refused"))
    for _ in range(4):
        loop.step(loss=math.nan)
    assert len(loop.actions()) == 2


def test_priors_reach_the_state() -> None:
    loop = healthy_run()
    order(loop, Policy(*WHO, "ada", START_MS, priors={"loss_spike/rollback": Prior(4.0, 3.0)}))
    state = loop.driver._operators["gpt/night"].operator._decisions.state()  # type: ignore[attr-defined]
    assert state.priors == {"loss_spike/rollback": Prior(4.0, 3.0)}


@pytest.fixture(scope="module")
def waiting() -> Loop:
    """A run that waits for an approval; what is refused leaves it as it is."""
    loop = healthy_run(allow=BY_APPROVAL)
    proposal(loop)
    return loop


@settings(max_examples=120, deadline=None)
@given(at=st.integers(0, 10_000), flip=st.integers(1, 255), is_act=st.booleans())
def test_no_altered_order_is_carried_out(waiting: Loop, at: int, flip: int, is_act: bool) -> None:
    ordered = act(MomentumReset()) if is_act else approval(waiting.decisions()[-1])
    signed = bytearray(PERSON.sign(encode(ordered)))
    signed[at % len(signed)] ^= flip
    waiting.send(bytes(signed), topics.COMMANDS)
    assert waiting.actions() == []


def test_orders_of_another_run_are_set_aside() -> None:
    loop = healthy_run()
    foreign = Act("gpt", "day", [MomentumReset()], "ada", START_MS)
    loop.send(PERSON.sign(encode(foreign)), topics.COMMANDS)
    assert [letter.reason for letter in loop.decoded(topics.DLQ)] == ["wrong_key"]  # type: ignore[attr-defined]
    assert loop.actions() == []
