"""Windows of 100 steps against numpy, however they are fed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.steps import StepRecord
from holter.pipeline.core.windows import WindowStage, describe
from holter.schemas.windows import WindowStat


def record(step: int, value: float, attempt: int = 1) -> StepRecord:
    return StepRecord(attempt, 0, step, step, step, True, True, {"train/loss": value})


def feed(stage: WindowStage, values: dict[int, float]) -> list[WindowStat]:
    return [stat for step, value in values.items() for stat in stage.update(record(step, value), 0)]


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=100))
def test_the_description_is_numpy_s(values: list[float]) -> None:
    steps = list(range(len(values)))
    found = describe(steps, values)
    close = {"rel_tol": 1e-6, "abs_tol": 1e-4}
    assert math.isclose(found["mean"], float(np.mean(values)), **close)
    assert math.isclose(found["sd"], float(np.std(values, ddof=1)), **close)
    assert math.isclose(found["slope"], float(np.polyfit(steps, values, 1)[0]), **close)
    for name, share in (("p05", 5), ("p50", 50), ("p95", 95), ("p99", 99)):
        assert math.isclose(found[name], float(np.percentile(values, share)), **close)  # type: ignore[literal-required]
    assert math.isclose(found["mad"], float(np.median(np.abs(np.array(values) - np.median(values)))), **close)


def test_windows_are_aligned_to_the_step_and_close_at_its_end() -> None:
    stats = feed(WindowStage("p", "r"), {step: float(step) for step in range(50, 250)})
    assert [(stat.first_step, stat.last_step, stat.count) for stat in stats] == [(50, 99, 50), (100, 199, 100)]


def test_a_gap_closes_what_was_open_and_the_end_closes_the_rest() -> None:
    stage = WindowStage("p", "r")
    stats = feed(stage, {10: 1.0, 305: 2.0})
    stats += stage.finish()
    assert [(stat.first_step, stat.count) for stat in stats] == [(10, 1), (305, 1)]
    assert stage.finish() == []


def test_the_band_is_of_the_window_before_and_the_score_is_of_the_farthest_value() -> None:
    first = {step: 2.0 + (step % 3 - 1) * 0.1 for step in range(100)}
    stage = WindowStage("p", "r")
    (told,) = feed(stage, first)
    assert (told.baseline, told.band_low, told.band_high, told.score) == (None,) * 4
    scale = 1.4826 * 0.1
    (told,) = feed(stage, {step: 5.0 if step == 150 else 1.9 for step in range(100, 200)})
    assert [told.baseline, told.band_low, told.band_high] == pytest.approx([2.0, 2.0 - 3 * scale, 2.0 + 3 * scale])
    assert told.score == pytest.approx(3.0 / scale)
    (told,) = feed(stage, dict.fromkeys(range(200, 300), math.nan))
    assert (told.baseline, told.score) == (1.9, None)
    (told,) = feed(stage, dict.fromkeys(range(300, 400), 1.0))
    assert told.baseline == 1.9, "a window without a finite value is no baseline"
    assert told.score is None, "a constant metric has no scale"


def test_the_score_of_a_fall_is_negative() -> None:
    ordinary = {step: 2.0 + (step % 3 - 1) * 0.1 for step in range(200)}
    *_, told = feed(WindowStage("p", "r"), {**ordinary, 150: 1.0})
    assert told.score == pytest.approx(-1.0 / (1.4826 * 0.1))


def test_non_finite_values_are_counted_and_enter_nothing() -> None:
    stage = WindowStage("p", "r")
    feed(stage, {0: 1.0, 1: math.nan, 2: math.inf, 3: 3.0})
    (stat,) = stage.finish()
    assert (stat.count, stat.num_finite, stat.mean, stat.max) == (4, 2, 2.0, 3.0)


def test_without_a_finite_value_nothing_is_known() -> None:
    stage = WindowStage("p", "r")
    feed(stage, {0: math.nan})
    (stat,) = stage.finish()
    assert stat.num_finite == 0
    assert math.isnan(stat.mean)
    assert math.isnan(stat.ema)


def test_a_new_attempt_closes_the_windows_of_the_old_and_starts_its_own() -> None:
    stage = WindowStage("p", "r")
    feed(stage, {0: 1.0, 1: 2.0})
    (old,) = stage.update(record(1, 5.0, attempt=2), 0)
    (new,) = stage.finish()
    assert (old.attempt, old.count, new.attempt, new.count, new.mean) == (1, 2, 2, 1, 5.0)
