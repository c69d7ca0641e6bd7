"""What is worth a word and no trouble: a new level, a standstill."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from holter.pipeline.core.detect.stack import DetectorSettings, DetectorStack, StackState
from holter.pipeline.core.signals import SignalStage
from holter.pipeline.core.steps import StepRecord
from holter.schemas.signals import Signal
from holter.schemas.telemetry import LOSS, BatchSizeChanged, DataPhase, Started


def judged(losses: list[float], stage: SignalStage | None = None, start: int = 0) -> list[Signal]:
    stage = stage or SignalStage("p", "r")
    rows = (StepRecord(1, 0, start + at, 0, at, True, True, {LOSS: loss}) for at, loss in enumerate(losses))
    return [signal for row in rows for signal in stage.update(row, 0)]


def noisy(level: float, count: int, seed: int = 0, sd: float = 0.03) -> list[float]:
    draw = random.Random(seed)
    return [level + draw.gauss(0.0, sd) for _ in range(count)]


def learning(count: int, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [2.0 + 3.0 * math.exp(-at / 300.0) + draw.gauss(0.0, 0.03) for at in range(count)]


def test_a_fall_to_a_level_that_stays_is_told_once_and_opens_no_incident() -> None:
    stage = SignalStage("p", "r")
    told = judged([*noisy(2.0, 200), *noisy(1.5, 200, seed=1)], stage)
    assert [(signal.kind, signal.severity, signal.phase, signal.is_notice) for signal in told] == [
        ("level_shift", "info", "close", True)
    ]
    (signal,) = told
    assert signal.baseline == pytest.approx(2.0, abs=0.05)
    assert signal.value == pytest.approx(1.5, abs=0.05)
    assert 192 <= signal.onset_step <= 216
    assert "left its level 1.99" in signal.explanation
    assert stage.incident is None


def test_a_slope_and_a_spike_that_heals_are_no_new_level() -> None:
    assert [signal for signal in judged(learning(1500)) if signal.kind == "level_shift"] == []
    spike = [2.0 + 4.0 * 0.6**at for at in range(12)]
    told = judged([*noisy(2.0, 200), *spike, *noisy(2.0, 200, seed=1)])
    assert "level_shift" not in {signal.kind for signal in told}


def test_an_incident_that_ends_higher_ends_its_baseline() -> None:
    told = judged([*noisy(2.0, 300), *[6.0] * 3, *noisy(2.4, 400, seed=2)])
    (closed,) = [signal for signal in told if signal.phase == "close" and not signal.is_notice]
    (shift,) = [signal for signal in told if signal.is_notice]
    assert (shift.kind, shift.state) == ("level_shift", "recovered_higher")
    assert shift.step > closed.step
    assert (shift.baseline, shift.value) == (pytest.approx(2.0, abs=0.05), pytest.approx(2.4, abs=0.05))


def test_a_run_that_gets_no_further_is_told_once_until_it_does() -> None:
    stage = SignalStage("p", "r")
    told = judged([*learning(1200), *noisy(2.05, 4000, seed=1)], stage)
    (standstill,) = [signal for signal in told if signal.kind == "plateau"]
    assert (standstill.state, standstill.is_notice) == ("stuck", True)
    assert standstill.baseline < 2.2
    assert 700 <= standstill.onset_step <= 2000
    further = judged([*noisy(1.5, 40, seed=2), *noisy(1.5, 8000, seed=3)], stage, start=5200)
    assert "plateau" in {signal.kind for signal in further}


def test_a_run_that_never_learned_does_not_stand_still() -> None:
    assert "plateau" not in {signal.kind for signal in judged(noisy(2.0, 3000))}


def test_both_are_the_same_after_a_restore() -> None:
    losses = [*noisy(2.0, 200), *noisy(1.5, 200, seed=1)]
    whole, broken = DetectorStack(DetectorSettings()), DetectorStack(DetectorSettings())
    for at, loss in enumerate(losses):
        record = StepRecord(1, 0, at, 0, at, True, True, {LOSS: loss})
        if not at % 50:
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(broken.state()), type=StackState)
            broken = DetectorStack(DetectorSettings(), state)
        whole.update(record)
        broken.update(record)
        assert broken.notices == whole.notices


@pytest.mark.parametrize("event", [BatchSizeChanged(32, 256), DataPhase("code")])
def test_a_level_that_a_trainer_announces_is_no_incident(event: BatchSizeChanged | DataPhase) -> None:
    for is_announced, seen in ((False, True), (True, False)):
        stage = SignalStage("p", "r")
        judged(noisy(2.0, 400), stage)
        if is_announced:
            stage.on_event(event)
        told = judged(noisy(2.6, 60, seed=1), stage, start=400)
        assert any(signal.phase == "open" for signal in told) is seen


def test_the_vocabulary_says_how_much_a_resumed_run_has_to_lose() -> None:
    chances = []
    for config in ({}, {"model.vocab_size": 50_257}):
        stage = SignalStage("p", "r")
        stage.on_event(Started(config=dict(config)))
        judged(noisy(2.0, 300), stage)
        told = judged(noisy(4.0, 40, seed=1), stage, start=300)
        chances.append([signal.features["lost_progress"] for signal in told if "lost_progress" in signal.features][-1])
    unknown, known = chances
    assert unknown == 0.0
    assert known == pytest.approx(2.0 / (math.log(50_257) - 2.0), abs=0.05)
