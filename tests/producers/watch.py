"""A `watch` for tests: reads what a trainer published on a memory bus, and signs what it is told to send."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from holter.pipeline.bus.memory import MemoryBus
from holter.schemas import Key, Keyring, codec, encode, run_key
from holter.schemas.commands import Hold, Release
from holter.schemas.control import Action, Effect, Health
from holter.schemas.telemetry import Ack, Event, MetricBatch, RunEvent
from holter.schemas.topics import CONTROL, HOLDS, TELEMETRY, Topic

ISSUER = Key("issuer-1", "issuer", b"i" * 32)
PERSON = Key("person-1", "person", b"p" * 32)
KEYRING = Keyring(keys={key.key_id: key for key in (ISSUER, PERSON)})
DEADLINE_SECONDS = 60.0
ResultT = TypeVar("ResultT")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def await_(condition: Callable[[], ResultT], what: str) -> ResultT:
    """Polls until the condition is truthy; fails at the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.002)


class FakeWatch:
    def __init__(self, bus: MemoryBus | None = None, project: str = "tests", run: str = "run") -> None:
        self.bus = bus or MemoryBus(now_ms)
        self.project, self.run = project, run
        self.ordinal = 0

    def records(self) -> list[Any]:
        return [codec.telemetry.decode(message.value or b"") for message in self.bus.log(TELEMETRY)]

    def batches(self) -> list[MetricBatch]:
        return [record for record in self.records() if isinstance(record, MetricBatch)]

    def not_applied(self) -> list[int]:
        """The steps whose updates were left out, however they were cut into batches."""
        return [
            step
            for batch in self.batches()
            for step, applied in zip(batch.step_numbers(), batch.applied or b"\1" * batch.num_steps, strict=True)
            if not applied
        ]

    def events(self, kind: type[Event] | None = None) -> list[RunEvent]:
        events = [record for record in self.records() if isinstance(record, RunEvent)]
        return [record for record in events if kind is None or isinstance(record.event, kind)]

    def acks(self) -> list[Ack]:
        return [record for record in self.records() if isinstance(record, Ack)]

    def values(self, metric: str, attempt: int | None = None) -> dict[int, float]:
        found: dict[int, float] = {}
        for batch in self.batches():
            if attempt in (None, batch.attempt):
                steps = batch.step_numbers()
                found.update({steps[offset]: value for offset, value in batch.column(metric).items()})
        return found

    def attempt(self) -> int:
        attempts: list[int] = await_(lambda: [record.attempt for record in self.records()], "a first record")
        return max(attempts)

    def action(self, effects: Sequence[Effect], **changes: Any) -> Action:
        self.ordinal += 1
        fields: dict[str, Any] = {
            "id": f"action-{self.ordinal}",
            "project": self.project,
            "run": self.run,
            "attempt": 0,
            "ordinal": self.ordinal,
            "incident": "incident-1",
            "effects": list(effects),
            "decided_ts": now_ms(),
            "expires_ts": now_ms() + 60_000,
            "first_step": 0,
            "last_step": 10**9,
            "seq": 0,
            "issuer_epoch": 1,
        }
        return Action(**{**fields, **changes})

    def act(self, effects: Sequence[Effect], **changes: Any) -> Action:
        """Signs and sends an action to the present attempt."""
        action = self.action(effects, **{"attempt": self.attempt(), **changes})
        self.send(CONTROL, ISSUER.sign(encode(action)))
        return action

    def health(self, checkpoint: str, step: int) -> None:
        health = Health(
            f"health-{checkpoint}", self.project, self.run, self.attempt(), checkpoint, step, now_ms(), 0, 1
        )
        self.send(CONTROL, ISSUER.sign(encode(health)))

    def hold(self, held: bool = True) -> None:
        kind = Hold if held else Release
        self.send(HOLDS, PERSON.sign(encode(kind(self.project, self.run, "ada", now_ms()))))

    def send(self, topic: Topic, envelope: bytes) -> None:
        self.bus.append(topic, run_key(self.project, self.run).encode(), envelope)
