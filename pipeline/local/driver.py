"""The stages over messages inside one process: for tests, replay and local mode. Flink drives the same operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from holter.pipeline.bus import Bus, Message
from holter.pipeline.core.journal import Journaled
from holter.pipeline.core.memory_state import MemoryState
from holter.pipeline.core.operator import KeyedState, Output
from holter.pipeline.core.run_operator import Deployment, restore
from holter.pipeline.core.set_aside import RunSetAside
from holter.schemas import InvalidRecord, encode, topics
from holter.schemas.dead_letter import MAX_KEPT_BYTES, DeadLetter
from holter.schemas.topics import Topic

Publish = Callable[[Topic, bytes, bytes], None]
"""Topic, key and value of what a stage says."""


class Judge:
    """Feeds messages to one operator a key and hands on what they say.

    ``states`` outlives the judge: a new one over the same states goes on where the last stopped.
    """

    def __init__(
        self, deployment: Deployment, publish: Publish, states: dict[str, KeyedState], name: str = "local"
    ) -> None:
        self._deployment = deployment
        self._publish = publish
        self._states = states
        self._name = name
        self._sources = tuple(topic.name for topic in deployment.sources)
        self._operators: dict[str, Journaled] = {}

    def handle(self, message: Message, now: int) -> None:
        """Judges one message; what cannot be read, or judged, goes to the dead letters."""
        try:
            key = _key(message)
            if message.value is None:
                return  # a tombstone of a compacted topic
            operator = self._operators.get(key) or self.load(key)
            self._say(operator.update(message.topic, message.value, now, self._states[key]))
        except InvalidRecord as error:
            self._set_aside(message, error)
            if isinstance(error, RunSetAside):
                self._say(error.outputs)

    def fire_timers(self, now: int) -> None:
        """Calls the operators whose deadline has come."""
        for key, operator in list(self._operators.items()):
            deadline = operator.deadline()
            if deadline is not None and deadline <= now:
                self._say(operator.on_timer(now, self._states[key]))
                if operator.operator.is_over():
                    del self._operators[key]

    def snapshots(self) -> dict[str, bytes]:
        """The whole state of every key that was met."""
        return {key: operator.to_bytes() for key, operator in self._operators.items()}

    def load(self, key: str) -> Journaled:
        """The operator of a key from its state.

        Raises:
            StateVersionError: its snapshot is of a version that this release does not read.
        """
        state = self._states.setdefault(key, MemoryState())
        operator = Journaled(self._sources, functools.partial(restore, key, self._deployment), state)
        self._operators[key] = operator
        return operator

    def _say(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            self._publish(self._deployment.outputs[output.topic], output.key, output.value)

    def _set_aside(self, message: Message, error: InvalidRecord) -> None:
        value = message.value or b""
        letter = DeadLetter(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            ts=message.timestamp_ms,
            reason=error.reason,
            detail=error.detail[:2000],
            reader=self._name,
            num_bytes=len(value),
            key=(message.key or b"")[:1024],
            value=value[:MAX_KEPT_BYTES],
        )
        self._publish(topics.DLQ, message.key or b"", encode(letter))


class Driver(Judge):
    """A judge that takes its messages from a bus and publishes there."""

    def __init__(self, deployment: Deployment, bus: Bus, states: dict[str, KeyedState], name: str = "local") -> None:
        super().__init__(deployment, bus.publisher(f"holter-{name}").publish, states, name)
        self._reader = bus.reader(deployment.sources, "earliest", f"holter-{name}")

    def poll(self, now: int, timeout_seconds: float = 0.0) -> int:
        """Handles what has arrived; returns how many messages that was."""
        messages = self._reader.poll(timeout_seconds)
        for message in messages:
            self.handle(message, now)
        return len(messages)


def _key(message: Message) -> str:
    if message.key is None:
        raise InvalidRecord("wrong_key", "no key")
    try:
        return message.key.decode()
    except UnicodeDecodeError:
        raise InvalidRecord("wrong_key", "the key is not UTF-8") from None
