"""A trainer and its judge in one process, step for step, so that the same seeds give the same run to the last bit.

After every step the trainer waits until what it said is judged, and what was decided arrives a fixed number of steps
later. Time is counted in steps of a nominal length: the load of the machine changes no decision. All else is what a
user has: ``Run`` with its sender and its readers, ``Guard``, and the stages of ``watch``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from holter.pipeline.bus import Message, Start
from holter.pipeline.bus.memory import MemoryBus, MemoryReader
from holter.pipeline.core.memory_state import MemoryState
from holter.pipeline.core.operator import KeyedState
from holter.pipeline.core.run_operator import watch
from holter.pipeline.local.driver import Judge
from holter.producers.records import BatchFacts
from holter.producers.run import Run, RunSettings
from holter.schemas import InvalidRecord, Key, Keyring, codec, encode
from holter.schemas.commands import Policy
from holter.schemas.signed import open_unverified
from holter.schemas.telemetry import STEP_SECONDS, CheckpointSaved, CheckpointVerified, Event, MetricBatch, RunEvent
from holter.schemas.topics import COMMANDS, CONTROL, DLQ, HOLDS, TELEMETRY, Topic

PROJECT = "rescue"
_EPOCH_MS = 1_800_000_000_000
_PATIENCE_SECONDS = 30.0
_ISSUER = Key("rescue-issuer", "issuer", b"r" * 32)
_PERSON = Key("rescue-person", "person", b"p" * 32)
_KEYRING = Keyring(keys={key.key_id: key for key in (_ISSUER, _PERSON)})


@dataclass(frozen=True)
class Pace:
    """What the clock counts; seconds of the run that is imitated, not of this machine.

    A step of a quarter of a second, with an action that takes at most a tenth of one from ``log`` to the latch, is
    met by it at the boundary after the next; ``lag_steps`` is how many boundaries later.
    """

    step_seconds: float = 0.25
    save_seconds: float = 0.25
    load_seconds: float = 0.5
    lag_steps: int = 1


class LockstepError(RuntimeError):
    """The trainer's threads did not do what they were waited for."""


class LockstepRun(Run):
    """A run whose steps, saves and loads take nominal times."""

    def __init__(self, settings: RunSettings, pace: Pace) -> None:
        super().__init__(settings)
        self._pace = pace

    def log_step(self, metrics: dict[str, Any], step: int, ts_ms: int, applied: bool, facts: BatchFacts) -> None:
        metrics[STEP_SECONDS] = self._pace.step_seconds
        super().log_step(metrics, step, self._settings.clock_ms(), applied, facts)

    def event(self, event: Event, step: int | None = None) -> None:
        if isinstance(event, CheckpointSaved):
            event = structs.replace(event, save_seconds=self._pace.save_seconds)
        elif isinstance(event, CheckpointVerified):
            event = structs.replace(event, load_seconds=self._pace.load_seconds)
        super().event(event, step)


class _WaitingReader(MemoryReader):
    """A reader of which is known whether all that there is was dealt with."""

    def __init__(self, bus: LockstepBus, topics: Sequence[Topic], start: Start) -> None:
        super().__init__(bus, topics, start)
        self.topics = frozenset(topic.name for topic in topics)
        self._is_asking = False

    @property
    def is_done(self) -> bool:
        return self._is_asking and not self._has_more()

    def poll(self, timeout_seconds: float) -> list[Message]:
        with self._bus.changed:
            self._is_asking = True
            self._bus.changed.notify_all()
            messages = super().poll(timeout_seconds)
            self._is_asking = not messages
            return messages


class LockstepBus(MemoryBus):
    """A memory bus whose readers can be waited for."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._readers: list[_WaitingReader] = []

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> MemoryReader:
        reader = _WaitingReader(self, topics, start)
        with self.changed:
            self._readers.append(reader)
        return reader

    def wait_for_message(self, topic: Topic, offset: int) -> Message:
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.log(topic)) > offset, _PATIENCE_SECONDS):
                raise LockstepError(f"nothing came after offset {offset} of {topic.name}")
            return self.log(topic)[offset]

    def wait_for_readers(self, topic: Topic) -> None:
        """Until a reader of this topic is there, and all of them have dealt with everything in it."""

        def are_done() -> bool:
            readers = [reader for reader in self._readers if topic.name in reader.topics]
            return bool(readers) and all(reader.is_done for reader in readers)

        with self.changed:
            if not self.changed.wait_for(are_done, _PATIENCE_SECONDS):
                raise LockstepError(f"{topic.name} is not read")


class Clock:
    """Milliseconds; moves only when a step is done."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.num_steps = 0

    def __call__(self) -> int:
        return _EPOCH_MS + round(1000 * self.num_steps * self._pace.step_seconds)


@dataclass(frozen=True)
class Heard:
    """A record that the trainer or the judge published, and after how many executed steps."""

    executed: int
    topic: str
    record: Any


class Lockstep:
    """One run's bus, clock and judge.

    Args:
        snapshots: what a judge before this one knew, by key.
        num_steps: executed steps of before, for the clock.
    """

    def __init__(
        self,
        name: str,
        policy: str,
        pace: Pace,
        snapshots: dict[str, bytes] | None = None,
        num_steps: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self._pace = pace
        self._clock = Clock(pace)
        self._clock.num_steps = num_steps
        self._bus = LockstepBus(self._clock)
        self._num_judged = self.executed = 0
        self._due: deque[tuple[int, bytes, bytes]] = deque()
        self.heard: list[Heard] = []
        states: dict[str, KeyedState] = {key: MemoryState(raw) for key, raw in (snapshots or {}).items()}
        self._judge = Judge(watch(_ISSUER, _KEYRING, 1, policy), self._take, states)
        for key in states:
            self._judge.load(key)
            self._set_policy(key, name, policy)
        settings = RunSettings(
            PROJECT, name, num_ranks=num_ranks, connect=lambda: self._bus, keyring=_KEYRING, clock_ms=self._clock
        )
        self.run: Run = LockstepRun(settings, pace)

    def settle(self, step: int, saves: bool) -> None:
        """After a step: what was said of it is judged, and what is due by now has reached the trainer.

        Args:
            step: as the trainer counted it.
            saves: whether its checkpoint is to be waited for.
        """
        self._clock.num_steps += 1
        self.executed += 1
        awaited = {"step", "save"} if saves else {"step"}
        while awaited:
            awaited -= self._judge_next(step)
        self._deliver()

    def finish(self) -> None:
        self.run.finish()
        while self._num_judged < len(self._bus.log(TELEMETRY)):
            self._judge_next(-1)

    def _set_policy(self, key: str, name: str, policy: str) -> None:
        """What the judge knew came with the policy of then."""
        now = self._clock()
        command = _PERSON.sign(encode(Policy(PROJECT, name, "rescue", now, preset=policy)))
        self._judge.handle(Message(COMMANDS.name, 0, 0, now, key.encode(), command), now)

    def snapshots(self) -> dict[str, bytes]:
        return self._judge.snapshots()

    def _judge_next(self, step: int) -> set[str]:
        message = self._bus.wait_for_message(TELEMETRY, self._num_judged)
        self._num_judged += 1
        record = codec.telemetry.decode(message.value or b"")
        if not isinstance(record, MetricBatch):
            self.heard.append(Heard(self.executed, TELEMETRY.name, record))
        self._judge.handle(message, self._clock())
        if isinstance(record, MetricBatch):
            return {"step"} if step in record.step_numbers() else set()
        is_save = isinstance(record, RunEvent) and isinstance(record.event, CheckpointSaved)
        return {"save"} if is_save and record.step == step else set()

    def _take(self, topic: Topic, key: bytes, value: bytes) -> None:
        if topic is CONTROL:
            self._due.append((self.executed + self._pace.lag_steps, key, value))
        try:
            record = topic.decoder.decode(open_unverified(value).body if topic.role else value)
        except InvalidRecord:
            record = None
        if topic is DLQ:
            raise LockstepError(f"the judge cannot read what the trainer said: {record}")
        self.heard.append(Heard(self.executed, topic.name, record))

    def _deliver(self) -> None:
        while self._due and self._due[0][0] <= self.executed:
            _, key, value = self._due.popleft()
            self._bus.append(CONTROL, key, value)
        if self.run.control is not None:
            for topic in (CONTROL, HOLDS):
                self._bus.wait_for_readers(topic)
