"""Silence through the operator: timers, state, and what is read-only about it."""

from __future__ import annotations

from collections.abc import Sequence

from holter.pipeline.core.operator import Output
from holter.pipeline.core.run_operator import SIGNALS, WINDOW_STATS, RunOperator, restore
from holter.pipeline.core.silence import Arrivals
from holter.schemas import codec, encode
from holter.schemas.telemetry import LOSS, Finished, MetricBatch, RunEvent, pack_floats, pack_ints
from holter.schemas.topics import TELEMETRY

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
KEY = "p/r"


def step(number: int, ts: int, live: bool = True, session: str = "s", attempt: int = 0) -> bytes:
    columns = {LOSS: pack_floats(1.0)}
    steps, times = pack_ints(number), pack_ints(ts)
    return encode(MetricBatch("p", "r", attempt, 0, session, number, steps, times, columns, live=live))


def kinds(outputs: Sequence[Output]) -> list[tuple[str, str]]:
    signals = [codec.signals.decode(output.value) for output in outputs]
    return [(signal.kind, signal.phase) for signal in signals]


def fire(operator: RunOperator, now: int) -> list[tuple[str, str]]:
    deadline = operator.deadline()
    assert deadline is not None
    return kinds(operator.on_timer(now)) if deadline <= now else []


def test_silence_is_told_once_and_outlives_a_restart() -> None:
    arrivals = Arrivals(START_MS)
    operator = restore(KEY, SIGNALS, None, arrivals)
    operator.update(TELEMETRY.name, step(0, START_MS), START_MS)
    arrivals.note(START_MS + MINUTE_MS - 1)
    assert fire(operator, START_MS + MINUTE_MS - 1) == []
    assert fire(operator, START_MS + MINUTE_MS) == [("silent", "open")]
    operator = restore(KEY, SIGNALS, operator.to_bytes(), Arrivals(START_MS + MINUTE_MS))
    assert fire(operator, START_MS + 10 * MINUTE_MS) == []
    later = START_MS + 11 * MINUTE_MS
    assert kinds(operator.update(TELEMETRY.name, step(1, later), later)) == [("silent", "close")]


def test_a_worker_that_starts_gives_every_run_its_time() -> None:
    operator = restore(KEY, SIGNALS, None, Arrivals(START_MS))
    operator.update(TELEMETRY.name, step(0, START_MS), START_MS)
    opened_ms = START_MS + 60 * MINUTE_MS
    operator = restore(KEY, SIGNALS, operator.to_bytes(), Arrivals(opened_ms))
    assert fire(operator, opened_ms + MINUTE_MS - 1) == []
    assert fire(operator, opened_ms + MINUTE_MS) == [("blind", "open")]


def test_records_sent_later_and_finished_runs_are_not_waited_for() -> None:
    operator = restore(KEY, SIGNALS, None, Arrivals(START_MS))
    operator.update(TELEMETRY.name, step(0, START_MS, live=False), START_MS)
    assert fire(operator, START_MS + 10 * MINUTE_MS) == []
    operator.update(TELEMETRY.name, step(1, START_MS), START_MS)
    ended = RunEvent("p", "r", 0, 0, "s", 2, 1, START_MS, Finished())
    operator.update(TELEMETRY.name, encode(ended), START_MS)
    assert fire(operator, START_MS + 10 * MINUTE_MS) == []


def test_windows_alone_say_nothing_of_it() -> None:
    operator = restore(KEY, WINDOW_STATS, None, Arrivals(START_MS))
    operator.update(TELEMETRY.name, step(0, START_MS), START_MS)
    assert operator.on_timer(START_MS + 10 * MINUTE_MS) == []


def test_a_second_process_is_a_conflict_once_until_the_next_attempt() -> None:
    operator = restore(KEY, SIGNALS, None, Arrivals(START_MS))
    operator.update(TELEMETRY.name, step(0, START_MS), START_MS)
    (opened,) = operator.update(TELEMETRY.name, step(1, START_MS, session="other"), START_MS)
    assert operator.update(TELEMETRY.name, step(2, START_MS, session="other"), START_MS) == []
    (closed,) = operator.update(TELEMETRY.name, step(1, START_MS, session="third", attempt=1), START_MS)
    assert kinds([opened, closed]) == [("conflict", "open"), ("conflict", "close")]
    ids = {codec.signals.decode(output.value).incident for output in (opened, closed)}
    assert len(ids) == 1
