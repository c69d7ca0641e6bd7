from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats.extremes import Extremes, RollingExtremes

VALUES = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=80)


@given(values=VALUES)
def test_stream_equals_batch(values: list[float]) -> None:
    extremes = Extremes()
    for value in values:
        extremes.update(value)
    assert (extremes.least, extremes.greatest) == (min(values), max(values))


@given(values=VALUES, capacity=st.integers(1, 12))
def test_the_rolling_ones_are_of_the_newest_values(values: list[float], capacity: int) -> None:
    window = RollingExtremes(capacity)
    for number, value in enumerate(values, 1):
        window.update(value)
        kept = values[max(0, number - capacity) : number]
        assert (len(window), window.least(), window.greatest()) == (len(kept), min(kept), max(kept))


def test_no_more_is_kept_than_may_still_matter() -> None:
    window = RollingExtremes(100)
    for value in range(1000):
        window.update(float(value))
    assert len(window.to_bytes()) < 2000
