"""`watch` goes on from before an action and hears telemetry and orders in another order: the run sees one effect."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from holter.pipeline.bus import Message
from holter.pipeline.core.operator import KeyedState
from holter.pipeline.local.driver import Driver
from holter.producers.latch import ActionGate, Latched, Permissions
from holter.schemas import codec, encode, topics
from holter.schemas.bounds import EffectName
from holter.schemas.commands import Act, Hold, Policy, Release
from holter.schemas.control import Action, LrFactor, MomentumReset, effect_name
from holter.schemas.decisions import Outcome
from holter.schemas.telemetry import EffectReport, Started
from tests.core.test_run_operator import KEYRING, PERSON, Loop, calm_rows, healthy_run
from tests.telemetry import ALL_EFFECTS, START_MS

WHO = ("gpt", "night")
ALLOWED: list[EffectName] = ["momentum_reset", "lr_factor"]
PERMISSIONS = Permissions(frozenset(ALLOWED), frozenset(ALLOWED))
IN_PLACE = Started(effects=ALL_EFFECTS.effects, allow=ALLOWED)


@dataclass
class Follower:
    """The trainer's end of control: its real fence, which answers everything and applies what may pass."""

    loop: Loop
    gate: ActionGate = field(default_factory=lambda: ActionGate(*WHO, 1, PERMISSIONS))
    applied: list[Action] = field(default_factory=list)
    num_read: int = 0

    def boundary(self) -> None:
        """Reads what has come, applies what is due and acknowledges it."""
        loop, now = self.loop, self.loop.trainer.now()
        messages = loop.bus.log(topics.CONTROL)[self.num_read :]
        self.num_read += len(messages)
        for message in messages:
            body = KEYRING.open(message.value or b"", "issuer")
            record = codec.control.decode(body)
            for answer in self.gate.offer(record, body, now) if isinstance(record, Action) else []:
                loop.send(loop.trainer.ack(answer.action, answer.status))
            taken = self.gate.take(loop.trainer.step - 1, now, on_hold=False)
            if isinstance(taken, Latched):
                self.gate.record_applied(taken)
                self.applied.append(taken.action)
                reports = [EffectReport(effect_name(effect), 1.0, 0.5) for effect in taken.action.effects]
                loop.send(loop.trainer.ack(taken.action, effects=reports))

    def num_applied(self) -> dict[str, int]:
        return Counter(effect_name(effect) for action in self.applied for effect in action.effects)


@dataclass
class Night:
    """A run whose gradient explodes, and a person who orders something else meanwhile.

    ``kept`` is the state of `watch` before all that, by what it had read by then.
    """

    loop: Loop
    follower: Follower
    kept: dict[str, KeyedState]
    begun: dict[str, int]

    def since(self, topic: topics.Topic) -> list[Message]:
        return self.loop.bus.log(topic)[self.begun.get(topic.name, 0) :]

    def restore(self, order: Sequence[Message]) -> None:
        """From before: the same messages again, each topic in its order, the topics as they come."""
        loop = self.loop
        loop.states = copy.deepcopy(self.kept)
        loop.driver = Driver(loop.deployment, loop.bus, loop.states)
        for message in order:
            loop.driver.handle(message, loop.trainer.now())
        loop.driver._reader._next = {  # type: ignore[attr-defined]
            topic.name: len(loop.bus.log(topic)) for topic in loop.deployment.sources
        }


def night() -> Night:
    loop = healthy_run("report", IN_PLACE)
    follower = Follower(loop)
    follower.boundary()
    kept = copy.deepcopy(loop.states)
    begun = {topic.name: len(loop.bus.log(topic)) for topic in loop.deployment.sources}
    order(loop, Policy(*WHO, "ada", START_MS, settings={"safety.cooldown_steps": 0.0}))
    for step in range(8):
        loop.step(grad=50.0)
        follower.boundary()
        if step == 3:
            order(loop, Act(*WHO, [LrFactor(0.5)], "ada", START_MS))
            follower.boundary()
    order(loop, Hold(*WHO, "ada", START_MS + 1), topics.HOLDS)
    order(loop, Release(*WHO, "ada", START_MS + 2), topics.HOLDS)
    return Night(loop, follower, kept, begun)


def order(loop: Loop, command: Act | Policy | Hold | Release, topic: topics.Topic = topics.COMMANDS) -> None:
    loop.send(PERSON.sign(encode(command)), topic)


def interleaved(parts: Sequence[Sequence[Message]], seed: int) -> list[Message]:
    """Seed 0 has the orders first, 1 the telemetry first, others are mixed at random."""
    left = [list(part) for part in parts if part]
    if seed < 2:
        return [message for part in (left[::-1] if seed == 0 else left) for message in part]
    dice = random.Random(seed)
    merged = []
    while left:
        part = dice.choice(left)
        merged.append(part.pop(0))
        left = [part for part in left if part]
    return merged


@pytest.mark.parametrize("seed", range(24))
def test_what_was_decided_before_is_not_applied_again(seed: int) -> None:
    run = night()
    once = run.follower.num_applied()
    assert once["momentum_reset"] == once["lr_factor"] == 1
    parts = [run.since(topic) for topic in (topics.TELEMETRY, topics.COMMANDS, topics.HOLDS)]
    run.restore(interleaved(parts, seed))
    for row in calm_rows(3, seed=seed):
        run.follower.boundary()
        run.loop.steps([row])
    assert run.follower.num_applied() == once


@pytest.mark.parametrize("seed", range(6))
def test_what_comes_later_is_still_treated(seed: int) -> None:
    """The restored `watch` learns from the answers which ordinals are used up."""
    run = night()
    parts = [run.since(topic) for topic in (topics.TELEMETRY, topics.COMMANDS, topics.HOLDS)]
    run.restore(interleaved(parts, seed))
    run.follower.boundary()
    run.loop.steps(calm_rows(5, seed=1))
    before = run.follower.num_applied()["momentum_reset"]
    order(run.loop, Act(*WHO, [MomentumReset()], "ada", START_MS + 3))
    run.follower.boundary()
    assert run.follower.num_applied()["momentum_reset"] == before + 1


def test_an_outcome_is_measured_though_the_action_was_answered_twice() -> None:
    loop = healthy_run("report", IN_PLACE)
    follower = Follower(loop)
    loop.step(grad=50.0)
    follower.boundary()
    (applied,) = follower.applied
    loop.send(loop.trainer.ack(applied, "refused"))
    loop.steps(calm_rows(60, seed=5))
    (outcome,) = [record for record in loop.decoded(topics.DECISIONS) if isinstance(record, Outcome)]
    assert outcome.action == applied.id
