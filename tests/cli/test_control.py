"""A person's orders as typed: signed, carried out by a watch on the same bus, answered."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from holter.infra.state import write_private
from holter.pipeline.bus import BusError
from holter.pipeline.cli import control, sending
from holter.pipeline.cli.main import app
from holter.schemas import topics
from holter.schemas.commands import Policy, Prior
from holter.schemas.control import LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.telemetry import Started
from tests.core.test_run_operator import ISSUER, KEYRING, PERSON, Loop, healthy_run
from tests.telemetry import ALL_EFFECTS

RUN = "gpt/night"
BY_APPROVAL = Started(effects=ALL_EFFECTS.effects, allow=ALL_EFFECTS.allow, autonomy={"rollback": "approve"})


class LiveBus:
    """The loop's bus, whose watch handles what is published before it is read back."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.is_watched = True

    def publisher(self, client_id: str) -> Any:
        return _Publisher(self._loop, self)

    def reader(self, *arguments: Any) -> Any:
        return self._loop.bus.reader(*arguments)


class _Publisher:
    def __init__(self, loop: Loop, bus: LiveBus) -> None:
        self._loop, self._bus = loop, bus

    def publish(self, topic: topics.Topic, key: bytes, value: bytes) -> None:
        self._loop.bus.append(topic, key, value)

    def flush(self, timeout_seconds: float) -> bool:
        if self._bus.is_watched:
            self._loop.driver.poll(self._loop.trainer.now())
        return True

    def close(self, timeout_seconds: float) -> None:
        pass


class Person:
    """Types commands against one run."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = {key.key_id: {"role": key.role, "key": key.secret.hex()} for key in (ISSUER, PERSON)}
        write_private(home / "keys.json", msgspec.json.encode({"version": 1, "keys": keys}))
        self._home = home
        self._monkeypatch = monkeypatch

    def at(self, loop: Loop) -> LiveBus:
        """The run that is spoken of, at its own time."""
        bus = LiveBus(loop)
        self._monkeypatch.setattr(sending, "KafkaBus", lambda _: bus)
        for module in (control, sending):
            self._monkeypatch.setattr(module, "now_ms", loop.trainer.now)
        return bus

    def types(self, *arguments: str, **environ: str) -> Result:
        environment = {
            "HOLTER_HOME": str(self._home / "none"), "HOLTER_TOPIC_PREFIX": "", "HOLTER_PERSON": "ada",
            "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "HOLTER_KEYS_FILE": str(self._home / "keys.json"),
            "COLUMNS": "200", **environ,
        }  # fmt: skip
        return CliRunner().invoke(app, arguments, env=environment)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", ["hold", "release", "approve", "reject", "act", "policy"])
def test_every_command_has_help_with_an_example(person: Person, command: str) -> None:
    answer = person.types(command, "--help")
    assert answer.exit_code == 0
    assert f"Example: holter {command} " in answer.stdout


def proposing() -> Loop:
    loop = healthy_run(allow=BY_APPROVAL)
    loop.step(loss=math.nan)
    return loop


def test_a_hold_and_its_release_are_carried_out(person: Person) -> None:
    loop = healthy_run()
    person.at(loop)
    answer = person.types("hold", RUN, "--reason", "debugging")
    assert (answer.exit_code, answer.stderr) == (0, "gpt/night: done, ada: nothing is applied until it is released\n")
    loop.step(loss=math.nan)
    assert loop.actions() == []
    assert person.types("release", RUN).exit_code == 0
    loop.step(loss=math.nan)
    assert len(loop.actions()) == 1


def test_an_approval_shows_what_it_approves_with_its_costs(person: Person) -> None:
    loop = proposing()
    person.at(loop)
    answer = person.types("approve", RUN)
    assert answer.exit_code == 0, answer.output
    assert "rollback at step 100" in answer.stderr
    assert "to step-49 of step 49" in answer.stderr
    assert "done, ada: approved" in answer.stderr
    assert [action.effects for action in loop.actions()] == [[Rollback("step-49", 49), SkipRange(99)]]


def test_a_decision_is_named_by_the_beginning_of_its_id(person: Person) -> None:
    loop = proposing()
    person.at(loop)
    decision = loop.decisions()[-1].id
    unknown = person.types("approve", RUN, "zzzz")
    assert unknown.exit_code == 1
    assert f"no decision zzzz of gpt/night waits for approval; {decision[:8]} does" in unknown.stderr
    assert person.types("approve", RUN, decision[:6]).exit_code == 0


def test_what_was_approved_or_rejected_waits_no_more(person: Person) -> None:
    person.at(proposing())
    assert person.types("reject", RUN, "--reason", "known shard").exit_code == 0
    answer = person.types("approve", RUN)
    assert answer.exit_code == 1
    assert "nothing of gpt/night waits for approval" in answer.stderr


def test_an_action_is_ordered(person: Person) -> None:
    loop = healthy_run()
    person.at(loop)
    for arguments in (["lr_factor", "--factor", ".5", "--ramp-steps", "200"], ["momentum_reset"],
                      ["rollback", "--from-step", "60"]):  # fmt: skip
        answer = person.types("act", RUN, *arguments)
        assert answer.exit_code == 0, answer.output
        loop.step()
    ordered = [action.effects for action in loop.actions()]
    assert ordered == [[LrFactor(0.5, 200)], [MomentumReset()], [Rollback("step-49", 49), SkipRange(60)]]


def test_a_refusal_is_told_with_its_reason(person: Person) -> None:
    person.at(healthy_run(allow=Started(effects=ALL_EFFECTS.effects, allow=["rollback"])))
    answer = person.types("act", RUN, "momentum_reset")
    assert answer.exit_code == 1
    assert "refused, ada: shadow: momentum_reset is not allowed" in answer.stderr


def test_without_an_answer_it_says_that_it_was_sent(person: Person) -> None:
    loop = healthy_run()
    person.at(loop).is_watched = False
    answer = person.types("hold", RUN, "--wait", "0")
    assert answer.exit_code == 1
    assert "sent; `watch` did not answer within 0 s" in answer.stderr
    assert len(loop.bus.log(topics.HOLDS)) == 1


def test_a_policy_comes_from_options_a_file_and_priors(person: Person, tmp_path: Path) -> None:
    loop = healthy_run()
    person.at(loop)
    file, priors = tmp_path / "night.toml", tmp_path / "priors.json"
    file.write_text('preset = "report"\n[autonomy]\nrollback = "approve"\n[safety]\ncooldown_steps = 80\n')
    priors.write_text('{"loss_spike/rollback": {"num": 4, "num_recovered": 3}}')
    answer = person.types("policy", RUN, "--file", str(file), "--priors", str(priors), "--preset", "expected-cost",
                          "--set", "cost.lr_cut=.25")  # fmt: skip
    assert answer.exit_code == 0, answer.output
    (message,) = loop.bus.log(topics.COMMANDS)
    command = topics.COMMANDS.decoder.decode(KEYRING.open(message.value or b"", "person"))
    assert isinstance(command, Policy)
    assert (command.preset, command.autonomy) == ("expected-cost", {"rollback": "approve"})
    assert command.settings == {"safety.cooldown_steps": 80.0, "cost.lr_cut": 0.25}
    assert command.priors == {"loss_spike/rollback": Prior(4.0, 3.0)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour = 1\n", "there is no key 'colour'; there are preset, [autonomy], [safety], [cost]"),
        ('preset = "brave"\n', "there is no policy 'brave'"),
        ("safety = 3\n", "safety must be a table, [safety]"),
        ("[safety]\nspeed = 3\n", "there is no setting 'safety.speed'"),
        ('[safety]\ncooldown_steps = "many"\n', "safety.cooldown_steps is 'many', it must be a number"),
        ("[cost]\nlr_cut = 7\n", "cost.lr_cut is 7, it must be from 0.1 to 1"),
        ('[autonomy]\nfly = "auto"\n', "there is no effect 'fly'"),
        ('[autonomy]\nrollback = "always"\n', "the autonomy of rollback is 'always'; it may be shadow, approve, auto"),
        ("[safety\n", "is no TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(person: Person, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "night.toml"
    file.write_text(text)
    answer = person.types("policy", RUN, "--file", str(file))
    assert answer.exit_code == 2
    assert said in _words(answer.stderr)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hold", "night"], "'night' is not PROJECT/RUN"),
        (["act", RUN, "lr_factor"], "lr_factor needs --factor"),
        (["act", RUN, "lr_factor", "--factor", "3"], "Expected `float` <= 1.0"),
        (["act", RUN, "skip_range"], "skip_range needs --from-step"),
        (["act", RUN, "rollback", "--step", "3"], "--checkpoint and --step go together"),
        (["policy", RUN], "say what is to change"),
        (["policy", RUN, "--set", "cost.lr_cut"], "'cost.lr_cut' is not NAME=VALUE"),
        (["policy", RUN, "--set", "cost.lr_cut=low"], "cost.lr_cut is 'low', it must be a number"),
        (["policy", RUN, "--priors", "/nowhere.json"], "No such file"),
    ],
)
def test_wrong_usage_is_said_and_nothing_is_sent(person: Person, arguments: list[str], said: str) -> None:
    loop = healthy_run()
    person.at(loop)
    answer = person.types(*arguments)
    assert answer.exit_code == 2, answer.output
    assert said in _words(answer.stderr)
    assert loop.decisions() == []


def test_without_keys_or_a_kafka_it_says_what_to_set(person: Person) -> None:
    person.at(healthy_run())
    without_keys = person.types("hold", RUN, HOLTER_KEYS_FILE="")
    assert without_keys.exit_code == 2
    assert "HOLTER_KEYS_FILE" in without_keys.stderr
    without_kafka = person.types("hold", RUN, KAFKA_BOOTSTRAP_SERVERS="")
    assert without_kafka.exit_code == 2
    assert "name a Kafka" in without_kafka.stderr


def test_a_bus_that_is_down_is_one_line(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.at(healthy_run())

    def down(_: object) -> None:
        raise BusError("no Kafka at kafka:9092", retriable=True)

    monkeypatch.setattr(sending, "KafkaBus", down)
    answer = person.types("hold", RUN)
    assert (answer.exit_code, answer.stderr) == (1, "error no Kafka at kafka:9092\n")


def _words(text: str) -> str:
    """Without the frame that a usage error is drawn in."""
    return re.sub(r"[\s│]+", " ", text)
