"""The rolling order statistics against their definitions."""

from __future__ import annotations

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats import ordered
from holter.pipeline.core.stats.rolling import RollingMedian

FINITE = st.floats(-1e9, 1e9)


@given(values=st.lists(FINITE, min_size=1, max_size=120), capacity=st.integers(1, 40))
def test_stream_equals_batch(values: list[float], capacity: int) -> None:
    window = RollingMedian(capacity)
    for step, value in enumerate(values):
        window.push(step, value)
    kept = values[-capacity:]
    middle = statistics.median(kept)
    assert window.values() == kept
    assert window.median() == middle
    spread = statistics.median([abs(value - middle) for value in kept])
    assert math.isclose(window.mad(), spread, rel_tol=1e-9, abs_tol=1e-6)


@given(values=st.lists(FINITE, min_size=1, max_size=60), last=st.integers(-1, 60))
def test_what_is_dropped_was_never_there(values: list[float], last: int) -> None:
    window, expected = RollingMedian(100), RollingMedian(100)
    for step, value in enumerate(values):
        window.push(step, value)
        if step <= last:
            expected.push(step, value)
    window.drop_after(last)
    assert window.values() == expected.values()
    assert window.ordered == expected.ordered


def test_an_empty_window_knows_nothing() -> None:
    window = RollingMedian(5)
    assert math.isnan(window.median())
    assert math.isnan(window.mad())


@given(values=st.lists(FINITE, min_size=1, max_size=50), share=st.floats(0.0, 1.0))
def test_quantiles_lie_between_the_extremes(values: list[float], share: float) -> None:
    in_order = sorted(values)
    assert in_order[0] <= ordered.quantile(in_order, share) <= in_order[-1] + 1e-6
