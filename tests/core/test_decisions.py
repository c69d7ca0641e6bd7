"""The decision stage over a whole run: loop breaker, refusals, outcomes, states."""

from __future__ import annotations

import math

import msgspec

from holter.pipeline.core.decisions import DecisionState
from holter.schemas import encode, topics
from holter.schemas.commands import Act, Prior
from holter.schemas.control import Action, LrFactor, Rollback
from holter.schemas.telemetry import (
    GRAD_NORM,
    LOSS,
    STEP_SECONDS,
    UPDATE_NORM,
    WEIGHT_NORM,
    CheckpointQuarantined,
    EffectReport,
    Parent,
    Started,
)
from tests.core.test_run_operator import PERSON, Loop, calm_rows, healthy_run
from tests.telemetry import ALL_EFFECTS, START_MS


def two_checkpoints(policy: str = "cautious") -> Loop:
    """200 calm steps; those of steps 49 and 99 are known to be healthy."""
    loop = healthy_run(policy)
    loop.checkpoint()
    loop.steps(calm_rows(100, seed=2))
    return loop


def go_back(loop: Loop, action: Action) -> None:
    """The trainer does as it was told."""
    target = next(effect for effect in action.effects if isinstance(effect, Rollback))
    left, attempt = loop.trainer.step - 1, loop.trainer.attempt
    loop.trainer.go_back(target.step)
    parent = Parent(attempt, target.step)
    loop.send(loop.trainer.event(Started(effects=ALL_EFFECTS.effects, allow=ALL_EFFECTS.allow, parent=parent)))
    loop.send(loop.trainer.ack(action, effects=[EffectReport("rollback", left, target.step, target.checkpoint)]))


def fail(loop: Loop) -> Action:
    """NaN until an action is issued."""
    known = len(loop.actions())
    while len(loop.actions()) == known:
        loop.step(loss=math.nan)
    return loop.actions()[-1]


def test_after_the_same_failure_twice_a_checkpoint_is_set_aside_for_the_next_older() -> None:
    loop = two_checkpoints()
    targets = []
    for seed in range(3):
        action = fail(loop)
        targets.append(action.effects[0])
        go_back(loop, action)
        loop.steps(calm_rows(10, seed=10 + seed))
    assert targets == [Rollback("step-99", 99), Rollback("step-99", 99), Rollback("step-49", 49)]
    reasons = [decision.reason for decision in loop.decisions() if decision.action]
    assert reasons[2].startswith("after step-99 the same came again 2 times: set aside; ")
    assert not reasons[1].startswith("after")


def test_a_damaged_checkpoint_is_answered_with_the_next_older_at_once() -> None:
    loop = two_checkpoints()
    action = fail(loop)
    loop.send(loop.trainer.event(CheckpointQuarantined("step-99", "SHA-256 differs")))
    loop.send(loop.trainer.ack(action, status="refused"))
    loop.step(loss=math.nan)
    assert [each.effects[0] for each in loop.actions()] == [Rollback("step-99", 99), Rollback("step-49", 49)]
    assert len([each for each in loop.decisions() if each.action]) == 2


def test_gradients_that_are_left_out_while_the_losses_are_finite_are_not_in_the_weights() -> None:
    loop = two_checkpoints("patient")
    for _ in range(14):
        loop.step(grad=math.inf, applied=False)
    assert not any("non-finite" in decision.reason for decision in loop.decisions())


def test_weights_that_the_trainer_found_broken_are_replaced_at_once() -> None:
    loop = two_checkpoints("expected-cost")
    broken = {LOSS: math.nan, GRAD_NORM: math.nan}
    loop.send(loop.trainer.steps([broken], applied=False))
    loop.send(loop.trainer.steps([{**broken, WEIGHT_NORM: 3.0}], applied=False))
    assert loop.actions() == []
    loop.send(loop.trainer.steps([{**broken, WEIGHT_NORM: math.inf}], applied=False))
    (action,) = loop.actions()
    assert action.effects[0] == Rollback("step-99", 99)


def test_what_helped_on_this_run_is_counted() -> None:
    loop = two_checkpoints()
    go_back(loop, fail(loop))
    loop.steps(calm_rows(60, seed=5))
    state = loop.driver._operators["gpt/night"].operator._decisions.state()  # type: ignore[attr-defined]
    assert state.helped == {"nan/rollback": Prior(1.0, 1.0), "nan/skip_range": Prior(1.0, 1.0)}


def test_an_action_that_is_followed_by_another_before_its_outcome_did_not_help() -> None:
    loop = two_checkpoints()
    go_back(loop, fail(loop))
    loop.steps(calm_rows(10, seed=5))
    fail(loop)
    state = loop.driver._operators["gpt/night"].operator._decisions.state()  # type: ignore[attr-defined]
    assert state.helped["nan/rollback"].num == 1.0


HURT: list[dict[str, float]] = [
    {LOSS: loss, GRAD_NORM: grad, UPDATE_NORM: update, STEP_SECONDS: 0.05}
    for loss, grad, update in [
        *([(2.0, 1.0, 3.0), (2.4, 1.5, 3.0), (3.0, 2.0, 3.0)]),
        *((2.0 + 2.0 / (1 + step / 20), 1.5, 0.1) for step in range(30)),
    ]
]


def hurt_by_a_burst(restarts: bool, size: int = 1) -> Loop:
    """Under `expected-cost`, in batches of so many steps; the judging process may die at every message."""
    loop = healthy_run("expected-cost")
    for start in range(0, len(HURT), size):
        if restarts:
            loop.restart()
        loop.send(loop.trainer.steps(HURT[start : start + size]))
    return loop


def test_a_restart_at_every_record_changes_nothing_of_what_is_weighed() -> None:
    whole, broken = hurt_by_a_burst(False), hurt_by_a_burst(True)
    assert [decision.choice for decision in whole.decisions() if decision.action] == ["rollback"]
    for topic in (topics.DECISIONS, topics.CONTROL):
        assert [message.value for message in broken.bus.log(topic)] == [m.value for m in whole.bus.log(topic)]


def test_what_is_weighed_does_not_depend_on_how_steps_are_cut() -> None:
    single, batched = hurt_by_a_burst(False), hurt_by_a_burst(False, size=4)
    told = [[(each.step, each.choice, each.reason, each.options) for each in loop.decisions()]
            for loop in (single, batched)]  # fmt: skip
    assert told[0] == told[1] != []


def test_a_state_of_before_there_was_more_to_remember_is_read() -> None:
    old = {
        "policy": "cautious",
        "safety": {"attempt": 1, "ordinal": 0},
        "checkpoints": {"pending": [], "healthy": [{"name": "a", "step": 9, "save_seconds": 0.1}]},
        "pending": {
            "action": "x", "incident": "i", "level_before": 4.0, "base_loss": 2.0, "scale": 0.1, "due": 5,
            "lost_steps": 0,
        },
    }  # fmt: skip
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=DecisionState)
    assert (state.policy, state.proposal, state.pending and state.pending.kind) == ("cautious", None, "")


def test_a_learning_rate_that_was_cut_is_known_to_climb_back() -> None:
    loop = healthy_run()
    cut = Act("gpt", "night", [LrFactor(0.5, 10)], "ada", START_MS)
    loop.send(PERSON.sign(encode(cut)), topics.COMMANDS)
    loop.send(loop.trainer.ack(loop.actions()[0], effects=[EffectReport("lr_factor", 1.0, 0.5)]))
    stage = loop.driver._operators["gpt/night"].operator._decisions  # type: ignore[attr-defined]
    seen = [stage._lr_factor()]
    for _ in range(3):
        loop.steps(calm_rows(5))
        seen.append(stage._lr_factor())
    assert seen == [0.5, 0.75, 1.0, 1.0]
