"""The detectors together: what they must see and what they must leave alone."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.stack import DetectorSettings, DetectorStack, StackState
from holter.pipeline.core.signals import SignalStage
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, LOSS_SCALE, UPDATE_NORM


def feed(
    stack: DetectorStack, rows: Sequence[Mapping[str, float]], start: int = 0, every: int = 1, applied: bool = True
) -> list[Evidence]:
    found: list[Evidence] = []
    for index, row in enumerate(rows):
        found += stack.update(StepRecord(1, 0, start + index * every, 0, 0, applied, True, dict(row)))
    return found


def losses(*values: float) -> list[dict[str, float]]:
    return [{LOSS: value} for value in values]


def calm(count: int, level: float = 2.0, sd: float = 0.03, seed: int = 0) -> list[dict[str, float]]:
    draw = random.Random(seed)
    return [{LOSS: level + draw.gauss(0.0, sd), GRAD_NORM: math.exp(draw.gauss(0.0, 0.2))} for _ in range(count)]


def stack() -> DetectorStack:
    return DetectorStack(DetectorSettings())


def kinds(found: Sequence[Evidence]) -> set[str]:
    return {item.kind for item in found}


def test_ordinary_noise_is_left_alone() -> None:
    assert feed(stack(), calm(3000)) == []


def test_one_huge_loss_counts_only_where_a_record_is_many_steps() -> None:
    for every, seen in ((1, set()), (10, {"loss_spike"})):
        detectors = stack()
        feed(detectors, calm(200), every=every)
        assert kinds(feed(detectors, losses(4.0), start=200 * every, every=every)) == seen


def test_a_spike_that_comes_again_names_the_first() -> None:
    detectors = stack()
    feed(detectors, calm(200))
    assert feed(detectors, losses(3.0), start=200) == []
    (found,) = feed(detectors, losses(3.0), start=201)
    assert (found.kind, found.onset_step, found.value) == ("loss_spike", 200, 3.0)


def test_what_is_no_higher_than_what_led_to_nothing_is_no_spike() -> None:
    for before, seen in ((5.0, set()), (2.0, {"loss_spike"})):
        detectors = stack()
        feed(detectors, [*calm(400), *losses(before), *calm(10, seed=1)])
        assert kinds(feed(detectors, losses(4.0, 4.0), start=411)) == seen


def test_many_small_exceedances_add_up() -> None:
    detectors = stack()
    feed(detectors, calm(500))
    assert kinds(feed(detectors, calm(20, level=2.12, seed=1), start=500)) == {"loss_spike"}


def test_a_drift_no_higher_than_what_led_to_nothing_is_no_news() -> None:
    draw = random.Random(28)
    swing = [draw.choice([0.03, 3.5, 7.0]) * (1.0 + 0.2 * math.sin(at / 11)) + 0.1 * draw.random() for at in range(500)]
    assert feed(stack(), losses(*swing), every=100) == []


@pytest.mark.parametrize("seed", [0, 3])
def test_a_loss_that_is_often_zero_has_not_collapsed(seed: int) -> None:
    draw = random.Random(seed)
    rows = losses(
        *(0.0 if draw.random() < 0.6 else round(1e-4 * math.exp(draw.gauss(0.0, 1.0)), 4) for _ in range(3000))
    )
    assert feed(stack(), rows) == []


def test_noise_with_outliers_raises_its_own_bar() -> None:
    draw = random.Random(4)
    rows = losses(*(2.0 + draw.gauss(0.0, 0.05) * (10.0 if draw.random() < 0.1 else 1.0) for _ in range(4000)))
    assert len(feed(stack(), rows)) <= 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_said_at_once_and_enters_nothing(bad: float) -> None:
    detectors = stack()
    feed(detectors, calm(100))
    before = detectors.loss.state()
    (found,) = feed(detectors, losses(bad), start=100)
    assert (found.kind, found.severity) == ("nan", "critical")
    (found,) = feed(detectors, losses(bad), start=101, applied=False)
    assert (found.kind, found.severity) == ("nan", "warning")
    assert detectors.loss.state() == before


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_norm_explodes_by_its_ratio_whatever_its_unit(unit: float) -> None:
    detectors = stack()
    feed(detectors, [{**row, GRAD_NORM: unit * row[GRAD_NORM]} for row in calm(1000)])
    found = feed(detectors, [{LOSS: 2.0, GRAD_NORM: 40.0 * unit}], start=1000)
    assert kinds(found) == {"grad_explosion"}
    assert 25.0 < found[0].score < 60.0


def test_the_update_is_named_before_the_gradient_and_the_loss() -> None:
    detectors = stack()
    rows = [{**row, UPDATE_NORM: 0.1 * math.exp(0.1 * math.sin(at))} for at, row in enumerate(calm(300))]
    feed(detectors, rows)
    (found,) = feed(detectors, [{LOSS: 2.0, GRAD_NORM: 1.0, UPDATE_NORM: 5.0}], start=300)
    assert found.kind == "update_explosion"


def test_a_run_that_begins_to_learn_may_have_growing_gradients() -> None:
    draw = random.Random(2)
    rows = [
        {
            LOSS: 9.0 * 0.99**at + draw.gauss(0.0, 0.02),
            GRAD_NORM: 0.2 * 1.02 ** min(at, 90) * math.exp(draw.gauss(0, 0.1)),
        }
        for at in range(150)
    ]
    assert feed(stack(), rows) == []


def test_a_loss_that_slowly_leaves_its_best_level_diverges() -> None:
    draw = random.Random(3)
    rows = [
        {LOSS: 5.0 - min(at, 400) / 200.0 + max(0, at - 500) / 1000.0 + draw.gauss(0.0, 0.03)} for at in range(1200)
    ]
    found = feed(stack(), rows)
    assert "divergence" in kinds(found)


def test_an_exact_zero_that_comes_again_is_a_collapse() -> None:
    detectors = stack()
    feed(detectors, calm(50))
    assert "collapse" in kinds(feed(detectors, losses(0.0, 0.0, 0.0, 0.0), start=50))


def test_a_loss_scale_that_only_falls_is_told() -> None:
    detectors = stack()
    ladder = [65536.0 / 2**index for index in range(5)]
    assert kinds(feed(detectors, [{LOSS: 2.0, LOSS_SCALE: scale} for scale in ladder])) == {"loss_scale"}
    assert feed(stack(), [{LOSS: 2.0, LOSS_SCALE: scale} for scale in (8.0, 4.0, 8.0, 4.0, 8.0, 4.0)]) == []


def test_a_run_that_climbs_from_its_first_rows_is_told() -> None:
    draw = random.Random(5)
    rows = losses(*(7.0 + 0.35 * at + draw.gauss(0.0, 0.05) for at in range(20)))
    assert "divergence" in kinds(feed(stack(), rows, every=20))


def test_a_second_run_in_the_log_starts_afresh() -> None:
    detectors = stack()
    feed(detectors, losses(*(10.0 * 0.99**at for at in range(300))))
    assert feed(detectors, losses(*(10.0 * 0.99**at for at in range(300)))) == []
    assert detectors.phase.start_level() > 9.0


def test_going_back_forgets_what_came_later() -> None:
    detectors = stack()
    feed(detectors, calm(200))
    feed(detectors, losses(*[9.0] * 30), start=200)
    detectors.rewind(150)
    assert feed(detectors, calm(100, seed=7), start=151) == []


@pytest.mark.parametrize(("decayed", "rate", "is_told"), [(1e-5, 1e-3, False), (1e-3, 3e-2, True), (1e-4, 3e-3, True)])
def test_a_new_cycle_of_the_schedule_is_a_new_level_but_a_burst_of_the_rate_is_not(
    decayed: float, rate: float, is_told: bool
) -> None:
    cosine = [decayed + (1e-3 - decayed) * (0.5 + 0.5 * math.cos(math.pi * step / 400)) for step in range(400)]
    before = [{**row, LEARNING_RATE: now} for row, now in zip(calm(400), cosine, strict=True)]
    after = [{**row, LEARNING_RATE: rate} for row in calm(100, level=2.8, seed=1)]
    detectors = stack()
    feed(detectors, before)
    assert bool(feed(detectors, after, start=400)) is is_told


def test_a_new_cycle_may_begin_in_a_record_that_lacks_metrics_or_explodes() -> None:
    detectors = stack()
    rows = [{**row, UPDATE_NORM: 0.1 + 0.001 * (step % 7)} for step, row in enumerate(calm(400))]
    feed(detectors, [{**row, LEARNING_RATE: 1e-3 if step < 200 else 1e-5} for step, row in enumerate(rows)])
    assert feed(detectors, [{LEARNING_RATE: 1e-3}, {GRAD_NORM: 5e3}, {GRAD_NORM: 5e3}], start=400) == []
    assert [detectors.band(metric) for metric in (LOSS, UPDATE_NORM)] == [None, None]
    feed(detectors, [{LOSS: 2.5, UPDATE_NORM: 0.3}], start=403)
    level, _, _ = detectors.band(LOSS) or (0.0, 0.0, 0.0)
    assert level == pytest.approx(2.5)


def swinging(periods: int) -> list[dict[str, float]]:
    draw = random.Random(3)
    levels = [2.0 + (1.5 if step % 600 >= 570 else 0.0) for step in range(600 * periods)]
    return losses(*(level + draw.gauss(0.0, 0.03) for level in levels))


def test_what_comes_back_again_and_again_is_told_a_few_times_only() -> None:
    stage = SignalStage("project", "run")
    opened = [
        step
        for step, row in enumerate(swinging(9))
        for signal in stage.update(StepRecord(1, 0, step, 0, 0, True, True, row), 0)
        if signal.phase == "open"
    ]
    assert 1 <= len(opened) <= 5
    assert max(opened) < 600 * 5


def bursting(count: int, seed: int) -> list[dict[str, float]]:
    """Noise whose spread is eight times as wide in bursts of some 60 records."""
    draw, rows, is_burst = random.Random(seed), [], False
    for _ in range(count):
        is_burst = draw.random() < (1.0 - 1.0 / 60.0 if is_burst else 1.0 / 150.0)
        rows.append({LOSS: 2.5 * math.exp(draw.gauss(0.0, 1.2 if is_burst else 0.15))})
    return rows


def test_a_run_that_has_known_bursts_is_told_of_few_more() -> None:
    opened = [
        step
        for seed in range(3)
        for stage in [SignalStage("project", "run")]
        for step, row in enumerate(bursting(3000, seed))
        for signal in stage.update(StepRecord(1, 0, step, 0, 0, True, True, row), 0)
        if signal.phase == "open" and step > 500
    ]
    assert len(opened) <= 6


def loud(count: int, seed: int, level: float = 1.0) -> list[dict[str, float]]:
    draw = random.Random(seed)
    return losses(*(level * math.exp(draw.gauss(0.0, 0.9)) for _ in range(count)))


def test_a_jump_is_seen_in_noise_as_loud_as_itself() -> None:
    seen = 0
    for seed in range(10):
        detectors = stack()
        assert feed(detectors, loud(600, seed)) == []
        seen += "loss jump" in {item.rule for item in feed(detectors, loud(12, 100 + seed, level=4.0), start=600)}
    assert seen >= 5


def test_a_stack_goes_on_from_its_state_in_loud_noise_too() -> None:
    whole, parted = stack(), stack()
    rows = [*loud(500, 1), *loud(40, 2, level=8.0), *loud(100, 3)]
    for step, row in enumerate(rows):
        record = StepRecord(1, 0, step, 0, 0, True, True, row)
        if not step % 37:
            raw = msgspec.msgpack.encode(parted.state())
            parted = DetectorStack(DetectorSettings(), msgspec.msgpack.decode(raw, type=StackState))
        assert whole.update(record) == parted.update(record)
    assert msgspec.msgpack.encode(whole.state()) == msgspec.msgpack.encode(parted.state())


def added_up(detectors: DetectorStack) -> float:
    jump = detectors.state().jump
    assert jump is not None
    return jump.cusum


def test_going_back_undoes_what_had_added_up_in_loud_noise() -> None:
    for seed in range(3):
        detectors = stack()
        feed(detectors, loud(300, seed))
        feed(detectors, loud(6, 100 + seed, level=16.0), start=300)
        assert added_up(detectors) > 2.0
        detectors.rewind(299)
        assert added_up(detectors) == 0.0
        assert feed(detectors, loud(40, 200 + seed), start=300) == []


def test_half_the_rise_is_enough_where_the_runs_own_curve_was_going_down() -> None:
    """Of a run that was falling as a power of its records, and of one that had long stood where it was."""
    found = []
    for curve in (lambda at: 1.0 + 9.0 * (at + 20.0) ** -0.4, lambda at: 1.5 + 4.0 * math.exp(-at / 60.0)):
        draw, detectors = random.Random(0), stack()
        fell = [curve(at) for at in range(1500)]
        rows = [*fell, *(fell[-1] * (1.0 + 0.00015 * at) for at in range(400))]
        found.append(kinds(feed(detectors, losses(*(loss + draw.gauss(0.0, 0.01) for loss in rows)))))
    assert found == [{"divergence"}, set()]
