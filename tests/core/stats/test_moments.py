from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats.moments import Moments
from holter.pipeline.core.stats.windowed import Windowed


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60))
def test_stream_equals_batch(values: list[float]) -> None:
    moments = Moments()
    for value in values:
        moments.update(value)
    assert moments.mean == pytest.approx(statistics.fmean(values), rel=1e-9, abs=1e-6)
    assert moments.variance() == pytest.approx(statistics.variance(values), rel=1e-9, abs=1e-3)


def test_a_small_variance_on_a_great_mean_is_kept() -> None:
    """Where a sum of squares in float64 gives 0 or less (the values of Chan, Golub and LeVeque's discussion)."""
    moments = Moments()
    for value in (1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16):
        moments.update(value)
    assert moments.variance() == 30.0


def test_of_one_value_the_variance_is_zero_and_of_none_unknown() -> None:
    moments = Moments()
    assert math.isnan(moments.mean)
    assert math.isnan(moments.variance())
    moments.update(3.0)
    assert (moments.mean, moments.sd()) == (3.0, 0.0)


@given(values=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=80), capacity=st.integers(1, 12))
def test_over_a_window_it_is_that_of_the_newest_values(values: list[float], capacity: int) -> None:
    window = Windowed(Moments, capacity)
    for value in values:
        window.update(value)
    kept = values[-capacity:]
    assert [value for (value,) in window.values()] == kept
    assert window.statistic.count == len(kept)
    assert window.statistic.mean == pytest.approx(statistics.fmean(kept), rel=1e-9, abs=1e-9)


def test_what_a_huge_value_rounded_away_comes_back_within_a_window() -> None:
    window = Windowed(Moments, 5)
    for value in (1e14, *(float(step % 3) for step in range(10))):
        window.update(value)
    kept = [value for (value,) in window.values()]
    assert window.statistic.variance() == pytest.approx(statistics.variance(kept))
