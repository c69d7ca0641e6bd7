from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from holter.pipeline.bus import BusError
from holter.pipeline.loader.insertion import Backoff
from holter.pipeline.loader.letter_box import LetterBox
from holter.pipeline.loader.loop import Loader, LoopSettings, MostlyUnreadable
from holter.pipeline.loader.sink import Sink
from holter.pipeline.store.errors import QueryRefused, StoreOverloaded
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.telemetry import MetricBatch, pack_floats, pack_ints
from holter.schemas.topics import BY_NAME, DLQ, TELEMETRY
from tests.loader.memory_log import LogConsumer, MemoryLog, MemoryPublisher, MemorySink, no_publisher

FAST = Backoff(first_seconds=0.001, max_seconds=0.001)
PARTITION = (TELEMETRY.name, 0)


def steps(number: int, first: int = 0) -> MemoryLog:
    log = MemoryLog()
    for step in range(first, first + number):
        record = MetricBatch("p", "r", 1, 0, "s", step, pack_ints(step), pack_ints(step), {"m/a": pack_floats(1.0)})
        log.append(TELEMETRY, record)
    return log


def loader(
    log: MemoryLog,
    sink: Sink,
    poll_size: int = 10,
    max_rows: int = 40,
    letters: LetterBox | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> Loader:
    settings = LoopSettings(max_rows=max_rows, max_age_seconds=60, poll_ms=0, backoff=FAST)
    return Loader(LogConsumer(log, poll_size), sink, letters or LetterBox(no_publisher), BY_NAME, settings, clock)


def test_batches_are_cut_by_rows_and_committed_after_they_are_inserted() -> None:
    log, sink = steps(35), MemorySink()
    made = loader(log, sink)
    for _ in range(4):
        made.step()
    made.flush()
    made.close()
    assert log.committed == {PARTITION: 35}
    assert [rows.num_rows for table, _, rows in sink.inserted if table == "raw_metrics"] == [20, 15]
    assert (made.counts.records, made.counts.batches) == (35, 2)


def test_a_batch_that_is_old_enough_is_inserted() -> None:
    now = [0.0]
    log, sink = steps(1), MemorySink()
    made = loader(log, sink, clock=lambda: now[0])
    made.step()
    assert not sink.tried
    now[0] = 61.0
    made.step()
    made.flush()
    made.close()
    assert log.committed == {PARTITION: 1}


def test_a_retry_has_the_same_token_and_nothing_is_committed_before_it_succeeds() -> None:
    log = steps(10)
    outage = [3]

    def fail(table: str) -> None:
        assert log.committed == {}
        if table == "raw_steps" and outage[0]:
            outage[0] -= 1
            raise StoreOverloaded("too many parts", 252)

    sink = MemorySink(fail)
    made = loader(log, sink)
    made.step()
    made.flush()
    made.close()
    assert len({token for table, token in sink.tried if table == "raw_steps"}) == 1
    assert [table for table, _ in sink.tried].count("raw_steps") == 4
    assert [table for table, _ in sink.tried].count("raw_metrics") == 1
    assert len({token for _, token in sink.tried}) == len({table for table, _ in sink.tried})
    assert (log.committed, made.counts.pauses) == ({PARTITION: 10}, 3)


def test_stopping_while_the_store_is_away_commits_nothing() -> None:
    log = steps(10)
    is_tried = threading.Event()

    def fail(table: str) -> None:
        is_tried.set()
        raise StoreOverloaded("full", 243)

    made = loader(log, MemorySink(fail), max_rows=1)
    thread = threading.Thread(target=made.run)
    thread.start()
    was_tried = is_tried.wait(10)
    made.stop.set()
    thread.join(10)
    made.close()
    assert was_tried
    assert not thread.is_alive()
    assert log.committed == {}


def test_what_no_retry_will_change_ends_the_loader() -> None:
    def fail(table: str) -> None:
        raise QueryRefused("no such table", 60)

    made = loader(steps(10), MemorySink(fail))
    made.step()
    with pytest.raises(QueryRefused):
        made.flush()
    made.close()


@pytest.mark.parametrize("retriable", [True, False])
def test_only_a_commit_that_may_succeed_later_is_waited_for(retriable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise BusError("fenced off", retriable=retriable)

    monkeypatch.setattr(LogConsumer, "commit", fail)
    made = loader(steps(10), MemorySink())
    made.step()
    with nullcontext() if retriable else pytest.raises(BusError):
        made.flush()
    made.close()
    assert made.counts.batches == int(retriable)


def test_dead_letters_are_sent_before_the_commit() -> None:
    log = steps(5)
    log.append_raw(TELEMETRY.name, b"p/r", b"\xc1")
    publisher = MemoryPublisher()
    made = loader(log, MemorySink(), letters=LetterBox(lambda: publisher))
    made.step()
    made.flush()
    made.close()
    ((topic, key, value),) = publisher.published
    letter: DeadLetter = DLQ.decoder.decode(value)
    assert (topic, key) == (DLQ.name, f"{TELEMETRY.name}/0".encode())
    assert (letter.offset, letter.value, letter.reader) == (5, b"\xc1", "loader")
    assert log.committed == {PARTITION: 6}


def test_a_letter_box_makes_a_new_publisher_after_a_failure() -> None:
    made: list[MemoryPublisher] = []

    class Broken(MemoryPublisher):
        def flush(self, timeout_seconds: float) -> bool:
            return False

    def make() -> MemoryPublisher:
        made.append(MemoryPublisher() if made else Broken())
        return made[-1]

    box = LetterBox(make)
    letter = DeadLetter("t", 0, 1, 1, "malformed", "", "loader", 0)
    with pytest.raises(BusError) as failed:
        box.send([letter])
    assert failed.value.retriable
    box.send([letter])
    assert len(made[1].published) == 1


def test_mostly_unreadable_topics_stop_the_loader_and_keep_the_offsets() -> None:
    log = MemoryLog()
    for _ in range(300):
        log.append_raw(TELEMETRY.name, b"p/r", b"\xc1")
    made = loader(log, MemorySink(), poll_size=300)
    made.step()
    with pytest.raises(MostlyUnreadable, match="300 of 300"):
        made.flush()
    made.close()
    assert log.committed == {}
