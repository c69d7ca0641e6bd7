from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats.ewma import Ewma

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=50)


@given(values=VALUES, decay=st.floats(0.1, 0.99))
def test_stream_equals_batch(values: list[float], decay: float) -> None:
    ewma = Ewma(decay)
    for value in values:
        ewma.update(value)
    weights = [decay**age for age in reversed(range(len(values)))]
    expected = sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
    assert ewma.mean() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(values=VALUES)
def test_it_is_the_bias_corrected_average_of_adam(values: list[float]) -> None:
    ewma, average = Ewma(0.9), 0.0
    for count, value in enumerate(values, 1):
        ewma.update(value)
        average = 0.9 * average + 0.1 * value
        assert ewma.mean() == pytest.approx(average / (1.0 - 0.9**count), rel=1e-9, abs=1e-9)


def test_half_a_life_later_a_value_weighs_half() -> None:
    ewma = Ewma.of_half_life(10)
    ewma.update(0.0)
    ewma.update(3.0, num_steps=10)
    assert ewma.mean() == pytest.approx(2.0)


def test_a_long_silence_forgets_all_and_leaves_a_number() -> None:
    ewma = Ewma(0.5)
    ewma.update(7.0)
    ewma.update(2.0, num_steps=1e6)
    assert ewma.mean() == 2.0


def test_rates_that_differ_are_not_merged_and_no_rate_is_no_average() -> None:
    with pytest.raises(ValueError, match="differ"):
        Ewma(0.5).merge(Ewma(0.9))
    with pytest.raises(ValueError, match="decay"):
        Ewma(1.0)
    assert math.isnan(Ewma(0.5).mean())
