"""Whatever the bus does, training goes on: a counted drop and one log line."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holter import producers
from holter.producers import Run
from holter.producers.run import RunSettings
from holter.schemas import codec
from holter.schemas.telemetry import MetricBatch, RunEvent
from holter.schemas.topics import TELEMETRY
from tests.producers.buses import AbsentBus, BreakingBus, StuckBus
from tests.producers.watch import await_


@pytest.fixture(autouse=True)
def tries_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holter.producers.sender._FIRST_BACKOFF_SECONDS", 0.02)


def make(bus: Any, queue_bound: int = 100) -> Run:
    return Run(RunSettings("p", "r", connect=lambda: bus, queue_bound=queue_bound))


def log(run: Run, num_steps: int, first: int = 0) -> None:
    for step in range(first, first + num_steps):
        run.log({"train/loss": float(step)}, step, commit=True)


def records(bus: Any) -> list[Any]:
    return [codec.telemetry.decode(message.value) for message in bus.real.log(TELEMETRY)]


def steps(bus: Any) -> list[int]:
    return [step for each in records(bus) if isinstance(each, MetricBatch) for step in each.step_numbers()]


def finish_quickly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holter.producers.run.FLUSH_SECONDS", 0.2)
    run.finish()


@pytest.mark.parametrize("kind", [AbsentBus, StuckBus])
def test_an_absent_bus_drops_the_oldest_metrics_and_keeps_events(
    kind: type[AbsentBus], caplog: pytest.LogCaptureFixture
) -> None:
    bus = kind()
    run = make(bus)
    log(run, 5000)
    await_(lambda: run.stats()["num_dropped"] > 0, "a drop")
    bus.appear()
    await_(lambda: 4999 in steps(bus), "the newest")
    run.finish()
    found = records(bus)
    assert isinstance(found[0], RunEvent)
    assert steps(bus) == sorted(steps(bus))
    assert len(steps(bus)) <= 3 * 512
    assert [record.seq for record in found] == sorted({record.seq for record in found})
    assert len([line for line in caplog.messages if "queue is full" in line]) == 1
    assert len([line for line in caplog.messages if "cannot reach" in line]) <= 1


def test_what_was_dropped_shows_as_a_gap_in_seq() -> None:
    bus = StuckBus()
    run = make(bus, queue_bound=10)
    log(run, 50)
    bus.appear()
    run.finish()
    seqs = [record.seq for record in records(bus)]
    num_dropped = run.stats()["num_dropped"]
    assert num_dropped > 0
    assert seqs[0] == 0
    assert max(b - a for a, b in itertools.pairwise(seqs)) == num_dropped + 1


def test_a_short_absence_loses_nothing() -> None:
    bus = AbsentBus()
    run = make(bus, queue_bound=1000)
    log(run, 50)
    await_(lambda: bus.num_attempts > 0, "an attempt")
    bus.appear()
    run.finish()
    assert steps(bus) == list(range(50))


def test_finishing_without_a_bus_ends_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(StuckBus())
    log(run, 5)
    finish_quickly(run, monkeypatch)
    assert run.stats()["notice_unsent"] == 1
    assert not run.enabled


@pytest.mark.parametrize("num_breaks", [1, 2])
def test_what_a_broken_publisher_did_not_deliver_is_sent_again_with_its_seq(num_breaks: int) -> None:
    bus = BreakingBus(num_breaks)
    run = make(bus)
    log(run, 20)
    run.finish()
    assert steps(bus) == list(range(20))
    seqs = [record.seq for record in records(bus)]
    assert seqs == list(range(len(seqs)))
    assert run.stats()["num_connections"] == num_breaks + 1


def test_a_record_that_is_refused_again_and_again_is_given_up() -> None:
    bus = BreakingBus(num_breaks=3, after=1)
    run = make(bus)
    log(run, 1)
    await_(lambda: run.stats()["num_refused"] > 0, "given up")
    log(run, 1, first=1)
    run.finish()
    assert 1 in steps(bus)


def test_a_bus_that_cannot_be_made_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def connect() -> Any:
        raise ImportError("no module named kafka")

    run = Run(RunSettings("p", "r", connect=connect))
    log(run, 10)
    await_(lambda: "notice_sender" in run.stats(), "the notice")
    log(run, 10, first=10)
    run.finish()
    assert len([line for line in caplog.messages if "no module named kafka" in line]) == 1


def test_a_disabled_run_does_nothing() -> None:
    run = producers.init("p", "r", mode="disabled")
    log(run, 3)
    run.finish()
    assert run.stats()["num_sent"] == 0
