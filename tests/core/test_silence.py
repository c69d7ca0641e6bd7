from __future__ import annotations

import msgspec
import pytest

from holter.pipeline.core.silence import Arrivals, SilenceStage, SilenceState
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import Phase
from holter.schemas.signals import Signal
from holter.schemas.telemetry import (
    LOSS,
    STEP_SECONDS,
    Finished,
    Heartbeat,
    MetricBatch,
    RunEvent,
    pack_floats,
    pack_ints,
)

MINUTE_MS = 60_000


class Watcher:
    """One run among others, on a clock of its own. Every call rebuilds the stage from its bytes."""

    def __init__(self) -> None:
        self.arrivals = Arrivals(opened_ms=1_000)
        self.state = SilenceState()
        self.now = 1_000

    def stage(self) -> SilenceStage:
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(self.state), type=SilenceState)
        return SilenceStage("p", "r", self.arrivals, state=kept)

    def step(self, number: int, seconds: float = 0.5) -> list[Signal]:
        stage = self.stage()
        values = {LOSS: 1.0, STEP_SECONDS: seconds}
        batch = MetricBatch(
            "p", "r", 0, 0, "s", number, pack_ints(number), pack_ints(self.now), {LOSS: pack_floats(1.0)}
        )
        told = stage.arrived(batch, self.now)
        stage.took(StepRecord(0, 0, number, self.now, number, True, True, values))
        self.state = stage.state()
        return told

    def event(self, event: Heartbeat | Finished, step: int) -> list[Signal]:
        stage = self.stage()
        told = stage.arrived(RunEvent("p", "r", 0, 0, "s", 99, step, self.now, event), self.now)
        self.state = stage.state()
        return told

    def wait(self, ms: int, others: bool = True) -> list[Signal]:
        """Time goes by in seconds; other runs are heard or not."""
        told: list[Signal] = []
        for _ in range(ms // 1_000):
            self.now += 1_000
            if others:
                self.arrivals.note(self.now)
            stage = self.stage()
            deadline = stage.deadline()
            if deadline is not None and deadline <= self.now:
                told += stage.fell_silent(self.now)
            self.state = stage.state()
        return told


@pytest.fixture
def watcher() -> Watcher:
    watcher = Watcher()
    for number in range(10):
        assert watcher.step(number) == []
        watcher.now += 500
    return watcher


def kinds(signals: list[Signal]) -> list[tuple[str, str]]:
    return [(signal.kind, signal.phase) for signal in signals]


def test_a_run_that_sends_nothing_while_others_do_is_silent_once(watcher: Watcher) -> None:
    told = watcher.wait(10 * MINUTE_MS)
    assert kinds(told) == [("silent", "open")]
    assert told[0].value == pytest.approx(60.0, abs=1.5)
    assert told[0].step == 9


def test_a_silent_run_that_is_heard_again_is_over_and_may_fall_silent_again(watcher: Watcher) -> None:
    (opened,) = watcher.wait(2 * MINUTE_MS)
    (closed,) = watcher.step(10)
    assert (closed.kind, closed.phase, closed.incident) == ("silent", "close", opened.incident)
    (again,) = watcher.wait(2 * MINUTE_MS)
    assert again.incident != opened.incident


def test_nothing_from_anyone_is_blind_and_not_silent(watcher: Watcher) -> None:
    assert kinds(watcher.wait(2 * MINUTE_MS, others=False)) == [("blind", "open")]
    assert watcher.stage().is_blind


def test_after_a_blackout_every_run_has_its_time_anew(watcher: Watcher) -> None:
    watcher.wait(59_000, others=False)
    watcher.now += 5 * MINUTE_MS  # the watcher itself stood still
    watcher.arrivals.note(watcher.now)
    assert watcher.wait(50_000) == []
    assert kinds(watcher.wait(11_000)) == [("silent", "open")]


def test_a_finished_run_is_not_expected(watcher: Watcher) -> None:
    watcher.event(Finished(), 9)
    assert watcher.stage().deadline() is None
    assert watcher.wait(5 * MINUTE_MS) == []


def test_a_run_that_never_came_is_not_expected() -> None:
    assert Watcher().stage().deadline() is None


@pytest.mark.parametrize(("phase", "expected"), [("train", [("hang", "open")]), ("eval", []), ("checkpoint", [])])
def test_a_step_that_stands_still_while_training_hangs(
    watcher: Watcher, phase: Phase, expected: list[tuple[str, str]]
) -> None:
    told: list[Signal] = []
    for _ in range(12):
        told += watcher.wait(10_000)
        told += watcher.event(Heartbeat(phase), 10)
    assert kinds(told) == expected


def test_long_steps_are_given_three_times_their_length() -> None:
    watcher = Watcher()
    for number in range(10):
        watcher.step(number, seconds=100.0)
    told: list[Signal] = []
    for _ in range(29):
        told += watcher.wait(10_000)
        told += watcher.event(Heartbeat("train"), 10)
    assert told == []
    for _ in range(3):
        told += watcher.wait(10_000)
        told += watcher.event(Heartbeat("train"), 10)
    assert kinds(told) == [("hang", "open")]
    assert told[0].threshold == pytest.approx(300.0)


def test_the_first_steps_may_take_long_to_compile() -> None:
    watcher = Watcher()
    watcher.step(0)
    told: list[Signal] = []
    for _ in range(30):
        told += watcher.wait(10_000)
        told += watcher.event(Heartbeat("train"), 1)
    assert told == []


def test_a_hang_is_over_with_the_next_step_and_silence_takes_its_place(watcher: Watcher) -> None:
    for _ in range(8):
        watcher.wait(10_000)
        watcher.event(Heartbeat("train"), 10)
    assert kinds(watcher.wait(2 * MINUTE_MS)) == [("hang", "close"), ("silent", "open")]
    assert kinds(watcher.step(10)) == [("silent", "close")]
