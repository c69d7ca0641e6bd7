"""Signs what a person orders, sends it and waits for what ``watch`` makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from holter.pipeline.bus import Bus, Message, Reader
from holter.schemas import InvalidRecord, Key, codec, encode, run_key
from holter.schemas.commands import Approve, Command, HoldState, Reject
from holter.schemas.decisions import Decision
from holter.schemas.digests import digest
from holter.schemas.topics import COMMANDS, DECISIONS, HOLDS

_FLUSH_SECONDS = 10.0
_POLL_SECONDS = 0.2
_CLIENT = "holter-orders"
LOOK_BACK_MS = 600_000
"""A proposal can be approved for ten minutes."""


class NotSent(Exception):
    """The bus did not take the order."""


class OrderDesk:
    """Args:
    key: the person's.
    clock_ms: UTC.
    """

    def __init__(self, bus: Bus, key: Key, clock_ms: Callable[[], int]) -> None:
        self._bus = bus
        self._key = key
        self._clock_ms = clock_ms

    def send(self, command: Command | HoldState, wait_seconds: float) -> Decision | None:
        """The answer, or None where none came in time: the order is sent all the same.

        Raises:
            BusError: the bus cannot be reached.
            NotSent: it did not acknowledge the order.
        """
        with closing(self._bus.reader([DECISIONS], "latest", _CLIENT)) as reader:
            self._publish(command)
            return self._answer(reader, command, wait_seconds)

    def waiting(self, project: str, run: str) -> list[Decision]:
        """The proposals of a run that no person has answered yet, the newest last.

        Raises:
            BusError: the bus cannot be read.
        """
        found: dict[str, Decision] = {}
        for decision in self._past_decisions(project, run):
            if decision.answer in ("done", "stale"):
                found.pop(decision.answers, None)
            elif decision.digest and not decision.action and not decision.answers:
                found = {decision.id: decision}  # a newer proposal takes the place of the one before
        return list(found.values())

    def _publish(self, command: Command | HoldState) -> None:
        topic = COMMANDS if isinstance(command, Command) else HOLDS
        publisher = self._bus.publisher(_CLIENT)
        try:
            key = run_key(command.project, command.run).encode()
            publisher.publish(topic, key, self._key.sign(encode(command)))
            if not publisher.flush(_FLUSH_SECONDS):
                raise NotSent(f"Kafka did not take the order within {_FLUSH_SECONDS:.0f} s")
        finally:
            publisher.close(1.0)

    def _answer(self, reader: Reader, command: Command | HoldState, wait_seconds: float) -> Decision | None:
        about = command.decision if isinstance(command, Approve | Reject) else digest(encode(command))
        deadline = time.monotonic() + wait_seconds
        while (left := deadline - time.monotonic()) > 0:
            for decision in _decisions(reader.poll(min(left, _POLL_SECONDS)), command.project, command.run):
                if decision.answers == about and decision.person == command.person:
                    return decision
        return None

    def _past_decisions(self, project: str, run: str) -> Iterator[Decision]:
        since_ms = self._clock_ms() - LOOK_BACK_MS
        with closing(self._bus.reader([DECISIONS], since_ms, _CLIENT)) as reader:
            while True:
                yield from _decisions(reader.poll(_POLL_SECONDS), project, run)
                if reader.caught_up():
                    return


def _decisions(messages: Sequence[Message], project: str, run: str) -> Iterator[Decision]:
    key = run_key(project, run).encode()
    for message in messages:
        if message.key != key or message.value is None:
            continue
        try:
            record = codec.decisions.decode(message.value)
        except InvalidRecord:
            continue
        if isinstance(record, Decision):
            yield record
