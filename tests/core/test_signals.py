"""The signal stage: the same after a restore, small, and one incident for one cause."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.core.signals import SignalStage, SignalState
from holter.pipeline.core.steps import StepRecord
from holter.schemas.signals import Signal
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, UPDATE_NORM

encode = msgspec.msgpack.encode
"""NaN is not equal to itself, its bytes are."""


def records(count: int, seed: int = 0, start: int = 0, level: float = 2.0) -> list[StepRecord]:
    draw = random.Random(seed)
    return [
        record(
            start + at,
            level + draw.gauss(0.0, 0.03),
            math.exp(draw.gauss(0.0, 0.2)),
            0.1 * math.exp(draw.gauss(0.0, 0.1)),
        )
        for at in range(count)
    ]


def record(step: int, loss: float, grad: float = 1.0, update: float = 0.1) -> StepRecord:
    return StepRecord(1, -1, step, step, step, True, True, {LOSS: loss, GRAD_NORM: grad, UPDATE_NORM: update})


def feed(stage: SignalStage, given: Sequence[StepRecord]) -> list[Signal]:
    return [signal for one in given for signal in stage.update(one, 0)]


def test_a_restore_at_any_record_changes_nothing() -> None:
    run = [*records(150), *(record(150 + at, 2.0 + 3.0 * 0.9**at, 1.0 + 9.0 * 0.8**at) for at in range(40))]
    run += [record(190, math.nan), *records(80, seed=1, start=191)]
    whole, broken = SignalStage("p", "r"), SignalStage("p", "r")
    for one in run:
        state = msgspec.msgpack.decode(encode(broken.state()), type=SignalState)
        broken = SignalStage("p", "r", state=state)
        assert encode(broken.update(one, 0)) == encode(whole.update(one, 0))
    assert encode(broken.state()) == encode(whole.state())


def test_a_run_is_at_most_16_kb() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(3000))
    feed(stage, [record(3000 + at, 5.0, 60.0) for at in range(30)])
    assert len(encode(stage.state())) <= 16 * 1024


def test_one_cause_is_one_incident_from_opening_to_recovery() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(300))
    told = feed(stage, [record(300 + at, 2.0 + 4.0 * 0.6**at, 1.0 + 20.0 * 0.7**at) for at in range(30)])
    told += feed(stage, records(30, seed=2, start=330, level=1.97))
    assert len({signal.incident for signal in told}) == 1
    assert (told[0].phase, told[-1].phase, told[-1].state) == ("open", "close", "recovered")
    assert told[0].onset_step == 300
    assert told[0].features["num_records"] == 1.0
    assert told[0].band_low is not None


def test_a_loss_is_told_in_scales_also_where_the_gradient_began_it() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(300))
    told = feed(stage, [record(300 + at, 2.0 if at < 7 else 2.5, 60.0 if at < 4 else 4.0) for at in range(40)])
    assert {(signal.metric, "times its median" in signal.explanation) for signal in told} == {
        (GRAD_NORM, True),
        (LOSS, False),
    }


def test_what_comes_soon_after_is_the_same_incident() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(300))
    told = feed(stage, [record(300, 4.0), record(301, 4.0), *records(9, seed=3, start=302), record(311, 4.0)])
    told += feed(stage, [record(312, 4.0)])
    assert [signal.phase for signal in told if signal.phase != "update"] == ["open", "close"]
    assert len({signal.incident for signal in told}) == 1


def test_an_incident_that_opens_again_higher_is_not_one_that_climbs() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(300))
    for start, height in ((300, 1.0), (312, 20.0)):
        told = feed(stage, [record(start + at, 2.0 + height * 0.3**at) for at in range(12)])
        assert all(signal.features.get("risen", 0.0) <= 0.0 for signal in told)
    assert len({signal.incident for signal in told}) == 1


def with_rate(one: StepRecord, update: float = 1.0, loss: float = 0.0) -> StepRecord:
    """The same with the learning rate, the update norm times a factor, the loss so much higher."""
    values = one.values
    changed = {LOSS: values[LOSS] + loss, UPDATE_NORM: update * values[UPDATE_NORM], LEARNING_RATE: 1e-3}
    return one._replace(values={**values, **changed})


def test_an_incident_of_updates_stays_open_until_they_are_what_they_were() -> None:
    stage = SignalStage("p", "r")
    told = feed(stage, [with_rate(one, 3.0 if 200 <= one.step < 260 else 1.0) for one in records(300)])
    assert [(one.step, one.phase) for one in told if one.phase != "update"] == [(202, "open"), (264, "close")]


def test_updates_that_grow_while_the_loss_falls_are_progress() -> None:
    stage = SignalStage("p", "r")
    falling = [with_rate(one, 3.0 if one.step >= 200 else 1.0, loss=0.01 * (300 - one.step)) for one in records(300)]
    assert feed(stage, falling) == []


def test_a_loss_that_stays_up_is_stuck_and_unlikely_to_recover() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(300))
    told = feed(stage, records(90, seed=4, start=300, level=3.0))
    assert told[-1].state == "stuck"
    assert stage.incident is not None
    assert stage.incident.p_recover < 0.5


def test_a_loss_that_hardly_moves_any_more_is_stuck_though_it_creeps_down() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(300))
    feed(stage, [record(300 + at, 3.0 - 2e-6 * at) for at in range(20)])
    assert stage.incident is not None
    assert (stage.incident.state, stage.incident.p_recover < 0.5) == ("stuck", True)


def test_one_incident_that_opens_again_and_again_does_not_hide_the_next() -> None:
    calm, run = records(140), [2.0] * 140
    for at in (60, 65, 70, 75, 80, 130):
        run[at] = 4.0
    stage = SignalStage("p", "r")
    rows = [record(100 * at, max(loss, one.values[LOSS])) for at, (loss, one) in enumerate(zip(run, calm, strict=True))]
    told = feed(stage, rows)
    assert [signal.step for signal in told if signal.phase == "open"] == [6000, 13000]


@settings(max_examples=8, deadline=None)  # of 400 records each
@given(seed=st.integers(0, 2**31))
def test_no_value_is_too_strange(seed: int) -> None:
    draw = random.Random(seed)
    strange = [0.0, -0.0, -1e300, 1e300, 1e-300, -5.0, math.nan, math.inf, -math.inf, 5e-324, 1.7e308]
    stage, step = SignalStage("p", "r"), 0
    for one in records(400, seed=seed):
        step = max(0, step + draw.choice([1, 1, 1, 1, 10, -50]))
        values = {
            metric: draw.choice(strange) if draw.random() < 0.1 else value * draw.choice([1.0, 1.0, 30.0, -1.0])
            for metric, value in {**one.values, LEARNING_RATE: 1e-3}.items()
            if draw.random() < 0.95
        }
        for signal in stage.update(one._replace(step=step, values=values), 0):
            assert 0.0 <= (signal.p_recover or 0.0) <= 1.0
    stage.begin_attempt(step // 2)
    assert encode(stage.state())


def test_the_band_of_a_metric_is_public() -> None:
    stage = SignalStage("p", "r")
    feed(stage, records(100))
    level, low, high = stage.band(LOSS) or (0.0, 0.0, 0.0)
    assert low < level < high
    assert stage.band("perf/step_seconds") is None
