"""One run through windows, signals and decisions, on the memory bus."""

from __future__ import annotations

import copy
import functools
import math
import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.bus.memory import MemoryBus
from holter.pipeline.core.operator import KeyedState, StateVersionError
from holter.pipeline.core.run_operator import SIGNALS, WINDOW_STATS, Deployment, restore, watch
from holter.pipeline.local.driver import Driver
from holter.schemas import Key, Keyring, codec, encode, topics
from holter.schemas.commands import Hold, Policy, Release
from holter.schemas.control import Action, Health, MomentumReset, Rollback, SkipRange
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.decisions import Decision, Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import (
    GRAD_NORM,
    LOSS,
    UPDATE_NORM,
    BadGradient,
    CheckpointSaved,
    EffectReport,
    Finished,
    Parent,
    Started,
)
from tests.telemetry import ALL_EFFECTS, START_MS, Trainer

ISSUER = Key("issuer-1", "issuer", b"i" * 32)
PERSON = Key("person-1", "person", b"p" * 32)
KEYRING = Keyring(keys={"issuer-1": ISSUER, "person-1": PERSON})
RUN = "gpt/night"
Row = Mapping[str, float]


class Loop:
    """A trainer and a watch on one bus."""

    tolerates_defects = False

    def __init__(self, policy: str = "cautious", deployment: Deployment | None = None) -> None:
        self.bus = MemoryBus(lambda: START_MS)
        self.states: dict[str, KeyedState] = {}
        self.trainer = Trainer()
        self.deployment = deployment or watch(ISSUER, KEYRING, issuer_epoch=7, policy=policy)
        self.restart()

    def restart(self) -> None:
        """The judging process dies and another goes on from its state."""
        self.driver = Driver(self.deployment, self.bus, self.states)
        self.driver._reader._next = {  # type: ignore[attr-defined]
            topic.name: len(self.bus.log(topic)) for topic in self.deployment.sources
        }

    def send(self, value: bytes, topic: topics.Topic = topics.TELEMETRY) -> None:
        key = f"{self.trainer.project}/{self.trainer.run}"
        num_before = len(self.bus.log(topics.DLQ))
        self.bus.append(topic, key.encode(), value)
        self.driver.poll(self.trainer.now())
        assert self.tolerates_defects or not self.defects(num_before)

    def step(self, loss: float = 2.0, grad: float = 1.0, applied: bool = True) -> None:
        self.send(self.trainer.steps([{LOSS: loss, GRAD_NORM: grad}], applied))

    def steps(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.send(self.trainer.steps([row]))

    def checkpoint(self) -> None:
        step = self.trainer.step - 1
        self.send(self.trainer.event(CheckpointSaved(f"step-{step}", save_seconds=0.05)))

    def decoded(self, topic: topics.Topic) -> list[object]:
        decode = topic.decoder.decode
        values = [message.value or b"" for message in self.bus.log(topic)]
        return [decode(KEYRING.open(value, topic.role)) if topic.role else decode(value) for value in values]

    def defects(self, first: int = 0) -> list[DeadLetter]:
        letters = [codec.dead_letters.decode(message.value or b"") for message in self.bus.log(topics.DLQ)[first:]]
        return [letter for letter in letters if letter.reason == "defect"]

    def actions(self) -> list[Action]:
        return [record for record in self.decoded(topics.CONTROL) if isinstance(record, Action)]

    def decisions(self) -> list[Decision]:
        return [record for record in self.decoded(topics.DECISIONS) if isinstance(record, Decision)]


def calm_rows(count: int, seed: int = 0, level: float = 2.0) -> list[Row]:
    noise = random.Random(seed)
    return [
        {
            LOSS: level + noise.gauss(0.0, 0.03),
            GRAD_NORM: math.exp(noise.gauss(0.0, 0.2)),
            UPDATE_NORM: 0.1 * math.exp(noise.gauss(0.0, 0.1)),
        }
        for _ in range(count)
    ]


def healthy_run(policy: str = "cautious", allow: Started = ALL_EFFECTS) -> Loop:
    """100 calm steps with a checkpoint at step 49 that is known to be healthy; its judge goes on from a state."""
    judged = _judged_healthy(policy, msgspec.msgpack.encode(allow))
    loop = Loop(policy)
    loop.bus._logs = {topic: list(log) for topic, log in judged.bus._logs.items()}
    loop.states = copy.deepcopy(judged.states)
    loop.trainer = copy.copy(judged.trainer)
    loop.restart()
    loop.driver.load(RUN)
    return loop


@functools.cache
def _judged_healthy(policy: str, allow: bytes) -> Loop:
    """To be read only; its state is a snapshot, from which going on is cheap."""
    loop = Loop(policy)
    loop.send(loop.trainer.event(msgspec.msgpack.decode(allow, type=Started)))
    loop.steps(calm_rows(50))
    loop.checkpoint()
    loop.steps(calm_rows(50, seed=1))
    state = loop.states[RUN]
    state.write_snapshot(loop.driver.snapshots()[RUN])
    state.clear_journal()
    return loop


def test_a_calm_run_is_left_alone_and_its_checkpoint_becomes_a_target() -> None:
    loop = healthy_run()
    loop.send(loop.trainer.event(Finished()))
    assert loop.decoded(topics.SIGNALS) == []
    assert loop.decoded(topics.DECISIONS) == []
    assert [(type(record), record.checkpoint) for record in loop.decoded(topics.CONTROL)] == [(Health, "step-49")]  # type: ignore[attr-defined]
    windows = loop.decoded(topics.WINDOWS)
    assert sorted(stat.metric for stat in windows) == [GRAD_NORM, LOSS, UPDATE_NORM]  # type: ignore[attr-defined]
    assert {(stat.first_step, stat.last_step, stat.count) for stat in windows} == {(0, 99, 100)}  # type: ignore[attr-defined]


def test_a_non_finite_loss_in_the_weights_rolls_back_past_the_data() -> None:
    loop = healthy_run()
    loop.step(loss=math.nan)
    (signal,) = loop.decoded(topics.SIGNALS)
    assert (signal.kind, signal.phase, signal.severity) == ("nan", "open", "critical")  # type: ignore[attr-defined]
    assert signal.p_recover < 0.2  # type: ignore[attr-defined]
    (action,) = loop.actions()
    assert action.effects == [Rollback("step-49", 49), SkipRange(99)]
    assert (action.attempt, action.ordinal, action.issuer_epoch, action.first_step) == (1, 1, 7, 100)
    (decision,) = loop.decisions()
    assert (decision.choice, decision.mode, decision.action) == ("rollback", "auto", action.id)


def test_a_rollback_is_followed_to_its_outcome() -> None:
    loop = healthy_run()
    loop.step(loss=math.nan)
    (action,) = loop.actions()
    loop.trainer.go_back(49)
    loop.send(loop.trainer.event(Started(**_fields(ALL_EFFECTS), parent=Parent(1, 49))))
    loop.send(loop.trainer.ack(action, effects=[EffectReport("rollback", 100, 49)]))
    loop.steps(calm_rows(60, seed=3))
    phases = [(signal.phase, signal.state) for signal in loop.decoded(topics.SIGNALS)]  # type: ignore[attr-defined]
    assert phases == [("open", "diverging"), ("close", "rolled_back")]
    (outcome,) = [record for record in loop.decoded(topics.DECISIONS) if isinstance(record, Outcome)]
    assert (outcome.result, outcome.action, outcome.attempt, outcome.lost_steps) == ("recovered", action.id, 2, 51)
    assert len(loop.actions()) == 1


def test_a_skipped_non_finite_step_is_told_and_left_to_the_trainer() -> None:
    loop = healthy_run()
    loop.step(loss=math.nan, grad=math.nan, applied=False)
    loop.steps(calm_rows(5, seed=2))
    assert loop.actions() == []
    phases = [(signal.phase, signal.severity) for signal in loop.decoded(topics.SIGNALS)]  # type: ignore[attr-defined]
    assert phases[0] == ("open", "warning")
    assert phases[-1][0] == "close"


def test_what_the_trainers_reflex_did_is_a_signal_of_its_own_origin() -> None:
    loop = healthy_run()
    alone = BadGradient("grad_explosion", GRAD_NORM, 50.0, 1.0, 50.0, 10.0)
    loop.send(loop.trainer.event(alone))
    (signal,) = loop.decoded(topics.SIGNALS)
    assert isinstance(signal, Signal)
    assert (signal.origin, signal.kind) == ("worker", "grad_explosion")
    assert (signal.phase, signal.state) == ("close", "recovered")
    assert (signal.step, signal.value, signal.baseline, signal.score, signal.threshold) == (99, 50.0, 1.0, 50.0, 10.0)
    assert signal.incident == signal.id
    assert "left the update out (1 in a row)" in signal.explanation
    loop.send(loop.trainer.steps([{LOSS: 2.0, GRAD_NORM: math.nan}], applied=False))
    loop.send(loop.trainer.event(BadGradient("nan", GRAD_NORM, math.nan, 0.0, math.inf, 0.0)))
    *_, opened, joined = loop.decoded(topics.SIGNALS)
    assert isinstance(opened, Signal)
    assert isinstance(joined, Signal)
    assert [(each.origin, each.phase) for each in (opened, joined)] == [("watch", "open"), ("worker", "update")]
    assert (joined.incident, joined.onset_step, joined.p_recover) == (opened.incident, 100, opened.p_recover)
    assert loop.actions() == []


def test_a_reflex_that_has_to_let_through_is_critical() -> None:
    loop = healthy_run()
    loop.send(loop.trainer.event(BadGradient("grad_explosion", GRAD_NORM, 50.0, 1.0, 50.0, 10.0, 4, True)))
    (signal,) = loop.decoded(topics.SIGNALS)
    assert isinstance(signal, Signal)
    assert (signal.severity, "took the update" in signal.explanation) == ("critical", True)


def test_waiting_ends_once_it_has_cost_as_much_as_going_back() -> None:
    loop = healthy_run()
    for index in range(60):
        loop.step(loss=2.5 + 1.5 * 0.98**index)
    (action,) = loop.actions()
    assert action.effects[0] == Rollback("step-49", 49)
    assert action.decided_ts == START_MS + 50 * (100 + 51)  # the checkpoint is 51 steps before the onset at 100


def test_a_lost_run_is_called_lost_once_until_a_loss_is_finite_again() -> None:
    loop = healthy_run(allow=Started())
    for _ in range(250):
        loop.step(loss=math.nan)
    assert [signal.state for signal in loop.decoded(topics.SIGNALS) if signal.phase == "close"] == ["lost"]  # type: ignore[attr-defined]
    loop.steps(calm_rows(5))
    loop.step(loss=math.nan)
    assert [signal.phase for signal in loop.decoded(topics.SIGNALS)][-1] == "open"  # type: ignore[attr-defined]


def test_a_journal_outlives_the_key_that_signed_an_entry_of_it() -> None:
    loop = healthy_run()
    loop.send(PERSON.sign(encode(Hold("gpt", "night", "ada", START_MS))), topics.HOLDS)
    loop.deployment = watch(ISSUER, Keyring(keys={"issuer-1": ISSUER}), issuer_epoch=7)
    loop.restart()
    loop.step()


def test_patient_waits_where_recovery_is_likely() -> None:
    loop = healthy_run("patient")
    for index in range(60):
        loop.step(loss=2.5 + 1.5 * 0.98**index)
    assert loop.actions() == []


def test_patient_goes_back_where_the_loss_lies_still() -> None:
    loop = healthy_run("patient")
    for _ in range(30):
        loop.step(loss=4.0)
    (action,) = loop.actions()
    assert "P(recover)" in action.reason


def test_report_resets_moments_at_an_explosion_then_goes_back() -> None:
    loop = healthy_run("report")
    loop.step(grad=50.0)
    (action,) = loop.actions()
    assert action.effects == [MomentumReset()]
    loop.send(loop.trainer.ack(action, effects=[EffectReport("momentum_reset")]))
    for _ in range(51):
        loop.step(loss=3.0, grad=50.0)
    assert [effect for effect in loop.actions()[1].effects if isinstance(effect, Rollback)]


def test_nothing_is_issued_in_shadow() -> None:
    loop = healthy_run(allow=Started(effects=ALL_EFFECTS.effects, allow=["nan_guard"]))
    loop.step(loss=math.nan)
    assert loop.actions() == []
    (decision,) = loop.decisions()
    assert (decision.choice, decision.mode) == ("rollback", "shadow")
    assert decision.held.startswith("shadow")


def test_one_action_at_a_time_and_a_cooldown_after_it() -> None:
    loop = healthy_run("report")
    for _ in range(3):
        loop.step(loss=math.nan)
    assert len(loop.actions()) == 1
    loop.send(loop.trainer.ack(loop.actions()[0], status="refused"))
    for _ in range(49):
        loop.step(loss=math.nan)
    assert len(loop.actions()) == 1
    for _ in range(2):
        loop.step(loss=math.nan)
    assert [action.ordinal for action in loop.actions()] == [1, 2]


def test_a_hold_stops_actions_until_it_is_released() -> None:
    loop = healthy_run()
    loop.send(PERSON.sign(encode(Hold("gpt", "night", "ada", START_MS))), topics.HOLDS)
    loop.step(loss=math.nan)
    assert loop.actions() == []
    loop.send(PERSON.sign(encode(Release("gpt", "night", "ada", START_MS))), topics.HOLDS)
    loop.step(loss=math.nan)
    assert len(loop.actions()) == 1


def test_a_hold_by_a_key_of_another_role_is_set_aside() -> None:
    loop = healthy_run()
    loop.send(ISSUER.sign(encode(Hold("gpt", "night", "ada", START_MS))), topics.HOLDS)
    (letter,) = loop.decoded(topics.DLQ)
    assert letter.reason == "wrong_role"  # type: ignore[attr-defined]


def test_the_policy_changes_by_a_signed_command() -> None:
    loop = healthy_run("patient")
    command = Policy("gpt", "night", "ada", START_MS, preset="report")
    loop.send(PERSON.sign(encode(command)), topics.COMMANDS)
    loop.step(grad=50.0)
    assert loop.actions()[0].effects == [MomentumReset()]


def test_two_sessions_of_one_attempt_block_actions() -> None:
    loop = healthy_run()
    other = Trainer(session="session-2", step=100)
    loop.send(other.steps([{LOSS: 2.0}]))
    loop.step(loss=math.nan)
    assert loop.actions() == []
    assert "two processes" in loop.decisions()[-1].held


def test_older_attempts_are_not_judged() -> None:
    loop = healthy_run()
    late = Trainer(attempt=0, step=100)
    loop.send(late.steps([{LOSS: math.nan}]))
    assert loop.decoded(topics.SIGNALS) == []


def test_what_cannot_be_read_is_set_aside_with_its_place() -> None:
    loop = healthy_run()
    loop.send(b"\xc1garbage")
    (letter,) = loop.decoded(topics.DLQ)
    assert (letter.topic, letter.reason, letter.value) == (topics.TELEMETRY.name, "malformed", b"\xc1garbage")  # type: ignore[attr-defined]
    assert letter.offset == len(loop.bus.log(topics.TELEMETRY)) - 1  # type: ignore[attr-defined]


def test_read_only_deployments_say_the_same() -> None:
    whole = _whole_burst()
    for deployment, topic in ((WINDOW_STATS, topics.WINDOWS), (SIGNALS, topics.SIGNALS)):
        part = _burst(Loop(deployment=deployment))
        assert part.decoded(topic) == whole.decoded(topic)
        assert part.decoded(topic)


@settings(max_examples=4, deadline=None)  # of 240 records each, at any of which it may restart
@given(seed=st.integers(0, 2**32 - 1))
def test_restarts_duplicates_and_reordering_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    whole, broken = _whole_burst(), Loop()
    previous = None
    for message in whole.bus.log(topics.TELEMETRY):
        if chance.random() < 0.05:
            broken.restart()
        value = message.value or b""
        broken.send(value)
        if previous is not None and chance.random() < 0.1:
            broken.send(previous)
        previous = value
    for topic in (topics.WINDOWS, topics.SIGNALS, topics.DECISIONS, topics.CONTROL):
        assert [m.value for m in broken.bus.log(topic)] == [m.value for m in whole.bus.log(topic)]


@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(1, 40), min_size=8, max_size=8))
def test_what_is_said_does_not_depend_on_how_steps_are_cut(cuts: list[int]) -> None:
    single, batched = _cut((1,)), _cut(tuple(cuts))
    for topic in (topics.WINDOWS, topics.SIGNALS, topics.DECISIONS):
        assert _without_seq(batched, topic) == _without_seq(single, topic)
        assert _without_seq(single, topic)


def test_a_snapshot_restores_to_the_same_bytes() -> None:
    loop = _burst(Loop())
    operator = loop.driver._operators["gpt/night"].operator
    raw = operator.to_bytes()
    assert restore("gpt/night", loop.deployment, raw).to_bytes() == raw
    assert len(raw) < 16 * 1024


def test_a_state_of_the_version_before_is_read_and_its_detectors_start_afresh() -> None:
    loop = healthy_run()
    loop.step(loss=math.nan)
    old = msgspec.msgpack.decode(loop.driver._operators["gpt/night"].operator.to_bytes())
    old["version"] = 1
    del old["signals"]["detectors"]
    old["signals"]["loss"] = {"steps": b"", "values": b"", "exceedances": [], "num_seen": 0, "num_rejected": 0}
    operator = restore("gpt/night", loop.deployment, msgspec.msgpack.encode(old))
    new = msgspec.msgpack.decode(operator.to_bytes())
    assert new["version"] == 2
    assert new["signals"]["detectors"]["loss"]["count"] == 0
    for kept in (("signals", "tracker"), ("signals", "recent"), ("decisions", "safety")):
        before, after = (msgspec.msgpack.encode(state[kept[0]][kept[1]]) for state in (old, new))
        assert after == before  # of NaN, too


def test_a_state_of_an_unknown_version_is_refused() -> None:
    loop = healthy_run()
    unknown = msgspec.msgpack.decode(loop.driver._operators["gpt/night"].operator.to_bytes())
    unknown["version"] = 99
    with pytest.raises(StateVersionError, match="version 99, this release reads 1 and 2"):
        restore("gpt/night", loop.deployment, msgspec.msgpack.encode(unknown))


def test_a_run_is_forgotten_in_two_steps() -> None:
    loop = healthy_run()
    loop.send(loop.trainer.event(Finished()))
    operator = loop.driver._operators["gpt/night"]
    hour, quarter = 3_600_000, 90 * 86_400_000
    loop.driver.fire_timers(loop.trainer.now() + hour)
    assert len(operator.operator.to_bytes()) < 128
    late = Trainer(attempt=0, step=7)
    loop.send(late.steps([{LOSS: math.nan}]))
    assert loop.decoded(topics.SIGNALS) == []
    loop.driver.fire_timers(loop.trainer.now() + hour + quarter + 1)
    assert "gpt/night" not in loop.driver._operators
    assert loop.states["gpt/night"].read_snapshot() is None


def test_a_deployment_that_acts_needs_an_issuer_key() -> None:
    with pytest.raises(ValueError, match="issuer key"):
        watch(PERSON, KEYRING, 1)
    with pytest.raises(ValueError, match="policy 'bold'"):
        watch(ISSUER, KEYRING, 1, policy="bold")


@functools.cache
def _cut(sizes: tuple[int, ...]) -> Loop:
    """A run with a shift of its loss, in batches of these sizes."""
    rows = [*calm_rows(110), *({**row, LOSS: 5.0} for row in calm_rows(30)), *calm_rows(60, seed=5)]
    loop, start = Loop(), 0
    loop.send(loop.trainer.event(ALL_EFFECTS))
    while start < len(rows):
        size = sizes[start % len(sizes)]
        loop.send(loop.trainer.steps(rows[start : start + size]))
        start += size
    return loop


@functools.cache
def _whole_burst() -> Loop:
    """To be read only."""
    return _burst(Loop())


def _burst(loop: Loop) -> Loop:
    loop.send(loop.trainer.event(ALL_EFFECTS))
    loop.steps(calm_rows(50))
    loop.checkpoint()
    loop.steps(calm_rows(40, seed=1))
    loop.steps([{**row, LOSS: 2.0 + 2.0 * 0.95**index} for index, row in enumerate(calm_rows(80, seed=2))])
    loop.steps(calm_rows(60, seed=3))
    loop.send(loop.trainer.event(Finished()))
    return loop


def _without_seq(loop: Loop, topic: topics.Topic) -> list[dict[str, object]]:
    return [
        {name: getattr(record, name) for name in record.__struct_fields__ if name != "seq"}  # type: ignore[attr-defined]
        for record in loop.decoded(topic)
    ]


def _fields(event: Started) -> dict[str, list[str]]:
    return {"effects": list(event.effects), "allow": list(event.allow)}


def test_decoder_of_control_sees_only_signed_bytes() -> None:
    loop = healthy_run()
    raw = loop.bus.log(topics.CONTROL)[0].value or b""
    body = KEYRING.open(raw, "issuer")
    assert isinstance(codec.control.decode(body), Health)
