"""What every bus must do; each implementation gives the fixture ``bus``."""

from __future__ import annotations

import time

import pytest

from holter.pipeline.bus import Bus, BusError, Message, Reader
from holter.pipeline.bus.memory import MemoryBus
from holter.schemas.topics import CONTROL, HOLDS, TELEMETRY

DEADLINE_SECONDS = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def bus() -> Bus:
    return MemoryBus(Clock())


def read(reader: Reader, count: int) -> list[Message]:
    """Polls until so many messages came."""
    messages: list[Message] = []
    for _ in range(int(DEADLINE_SECONDS / 0.05)):
        messages += reader.poll(0.05)
        if len(messages) >= count:
            break
    return messages


class BusContract:
    """The suite. Topics may hold messages of earlier tests, so every test uses keys of its own."""

    def test_order_by_key_and_bytes_are_kept(self, bus: Bus) -> None:
        reader = bus.reader([TELEMETRY], "latest", "reader")
        publisher = bus.publisher("publisher")
        values = [bytes([number]) * number for number in range(1, 30)]
        for value in values:
            publisher.publish(TELEMETRY, b"order/1", value)
        assert publisher.flush(DEADLINE_SECONDS)
        messages = read(reader, len(values))
        assert [message.value for message in messages] == values
        assert {(message.topic, message.key) for message in messages} == {(TELEMETRY.name, b"order/1")}
        assert sorted(message.offset for message in messages) == [message.offset for message in messages]
        reader.close()
        publisher.close(1.0)

    def test_a_reader_from_the_start_sees_what_was_there_and_knows_when_it_has(self, bus: Bus) -> None:
        publisher, key = bus.publisher("publisher"), b"start/%d" % time.time_ns()
        publisher.publish(HOLDS, key, b"one")
        assert publisher.flush(DEADLINE_SECONDS)
        reader = bus.reader([HOLDS], "earliest", "reader")
        assert not reader.caught_up()
        values: list[bytes | None] = []
        while not reader.caught_up():
            values += [message.value for message in reader.poll(0.1) if message.key == key]
        assert values == [b"one"]
        reader.close()
        publisher.close(1.0)

    def test_the_latest_start_and_several_topics(self, bus: Bus) -> None:
        publisher = bus.publisher("publisher")
        publisher.publish(CONTROL, b"latest/1", b"before")
        assert publisher.flush(DEADLINE_SECONDS)
        reader = bus.reader([CONTROL, HOLDS], "latest", "reader")
        assert reader.caught_up()
        publisher.publish(CONTROL, b"latest/1", b"after")
        publisher.publish(HOLDS, b"latest/1", b"held")
        assert publisher.flush(DEADLINE_SECONDS)
        found = {(message.topic, message.value) for message in read(reader, 2)}
        assert found == {(CONTROL.name, b"after"), (HOLDS.name, b"held")}
        reader.close()
        publisher.close(1.0)

    def test_a_start_in_time_skips_what_is_older(self, bus: Bus) -> None:
        publisher = bus.publisher("publisher")
        everything = bus.reader([CONTROL], "latest", "all")
        publisher.publish(CONTROL, b"time/1", b"old")
        assert publisher.flush(DEADLINE_SECONDS)
        (old,) = read(everything, 1)
        for _ in range(1000):
            publisher.publish(CONTROL, b"time/1", b"new")
            assert publisher.flush(DEADLINE_SECONDS)
            new = read(everything, 1)[-1]
            if new.timestamp_ms > old.timestamp_ms:
                break
        reader = bus.reader([CONTROL], new.timestamp_ms, "reader")
        values = [message.value for message in read(reader, 1)]
        assert values[0] == b"new"
        for closing in (everything, reader):
            closing.close()
        publisher.close(1.0)

    def test_nothing_comes_after_the_timeout(self, bus: Bus) -> None:
        reader = bus.reader([TELEMETRY], "latest", "reader")
        assert list(reader.poll(0.05)) == []
        reader.close()

    def test_a_closed_publisher_takes_nothing(self, bus: Bus) -> None:
        publisher = bus.publisher("publisher")
        publisher.close(1.0)
        with pytest.raises(BusError):
            publisher.publish(TELEMETRY, b"closed/1", b"x")


class TestMemoryBus(BusContract):
    pass
