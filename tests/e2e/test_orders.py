"""A person's orders, typed on the command line, reach a run through the real broker and `watch` on the real Flink."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from holter.pipeline.cli.main import app
from holter.producers import init
from holter.producers.latch import Latched, Permissions
from holter.producers.records import BatchFacts
from holter.producers.run import Beginning
from holter.schemas.bounds import EffectName
from holter.schemas.control import Effect, LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.telemetry import GRAD_NORM, LOSS, STEP_SECONDS, UPDATE_NORM, CheckpointSaved

PROJECT = "orders"
EFFECTS: frozenset[EffectName] = frozenset({"lr_factor", "momentum_reset", "rollback", "skip_range"})
DEADLINE_SECONDS = 60.0
SETTLE_SECONDS = 1.0


class LiveRun:
    """A trainer without a model: it logs, and takes from the real control what may be applied."""

    def __init__(self, environ: dict[str, str], name: str, autonomy: dict[EffectName, Any]) -> None:
        self.name = f"{PROJECT}/{name}"
        self._run = init(PROJECT, name, environ=environ)
        self._run.begin(Beginning(time.time_ns() // 1_000_000, Permissions(EFFECTS, EFFECTS, autonomy)))
        assert self._run.control is not None
        self._control = self._run.control
        self._noise = random.Random(0)
        self.step = 0
        self._until(lambda: self._control.is_armed, "the holds were read")

    def log(self, count: int = 1, loss: float = 2.0) -> None:
        for _ in range(count):
            values = {LOSS: loss + self._noise.gauss(0.0, 0.03), GRAD_NORM: math.exp(self._noise.gauss(0.0, 0.2)),
                      UPDATE_NORM: 0.1 * math.exp(self._noise.gauss(0.0, 0.1)), STEP_SECONDS: 0.05}  # fmt: skip
            self._run.log_step(values, self.step, time.time_ns() // 1_000_000, True, BatchFacts())
            self.step += 1

    def save(self) -> None:
        self._run.event(CheckpointSaved(f"step-{self.step - 1}", save_seconds=0.05), self.step - 1)

    def applied(self) -> list[Effect]:
        """What arrives, applied and acknowledged at the next boundary."""
        taken: list[Latched] = []

        def take() -> bool:
            latched = self._control.take(self.step)
            if latched is not None:
                taken.append(latched)
            return bool(taken)

        self._until(take, "an action arrived")
        (latched,) = taken
        self._control.record_applied(latched)
        self._run.acknowledge(latched.action, "applied", self.step, digest=latched.digest)
        return list(latched.action.effects)

    def nothing_arrives(self) -> bool:
        time.sleep(SETTLE_SECONDS)
        return not self._control.is_pending

    def finish(self) -> None:
        self._run.finish()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"never: {what}"
            time.sleep(0.01)


class Person:
    """Types commands where the stack is known."""

    def __init__(self, home: Path) -> None:
        self.environ = {"HOLTER_HOME": str(home), "HOLTER_PERSON": "ada", "COLUMNS": "200"}

    def types(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--wait", "30"], env=self.environ)

    def gets(self, *arguments: str) -> str:
        """What is answered to an order that is carried out."""
        result = self.types(*arguments)
        assert result.exit_code == 0, result.output
        return result.stderr

    def finds_waiting(self, run: LiveRun) -> str:
        """Asks until a proposal waits: what a person sees who rejects one that does not exist."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            said = self.types("reject", run.name, "zzzz").stderr
            if found := re.search(r"waits for approval; (\w{8}) does", said):
                return found[1]
        raise AssertionError(f"nothing waits: {said}")


@pytest.fixture
def person(stack: Any, monkeypatch: pytest.MonkeyPatch) -> Person:
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "HOLTER_KEYS_FILE", "HOLTER_TOPIC_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return Person(stack.home)


@pytest.mark.services
@pytest.mark.timeout(480)
def test_orders_are_carried_out_by_the_running_watch(person: Person) -> None:
    run = LiveRun(person.environ, f"night-{time.time_ns()}", {"rollback": "approve"})
    run.log(50)
    run.save()
    run.log(50)

    assert "done, ada: ordered lr_factor" in person.gets("act", run.name, "lr_factor", "--factor", ".5")
    assert run.applied() == [LrFactor(0.5)]

    assert "nothing is applied" in person.gets("hold", run.name, "--reason", "looking")
    refused = person.types("act", run.name, "momentum_reset")
    assert (refused.exit_code, "the run is on hold" in refused.stderr) == (1, True)
    assert run.nothing_arrives()
    assert "may be applied again" in person.gets("release", run.name)
    assert "done" in person.gets("act", run.name, "momentum_reset")
    assert run.applied() == [MomentumReset()]

    assert "safety.cooldown_steps 0" in person.gets("policy", run.name, "--set", "safety.cooldown_steps=0")
    run.log(30)
    run.log(loss=math.nan)
    first = person.finds_waiting(run)
    assert "rejected for this incident" in person.gets("reject", run.name, first, "--reason", "known shard")
    assert run.nothing_arrives()

    run.log(80)
    onset = run.step
    run.log(loss=math.nan)
    second = person.finds_waiting(run)
    assert second != first
    stale = person.types("approve", run.name, first)
    assert (stale.exit_code, f"{second} does" in stale.stderr) == (1, True)
    assert "done, ada: approved" in person.gets("approve", run.name, second)
    back, skip = run.applied()
    assert isinstance(back, Rollback)
    assert back.step < onset
    assert skip == SkipRange(onset - 1)
    run.finish()
