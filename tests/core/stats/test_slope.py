from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats.slope import Slope


@given(values=st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=60), start=st.integers(0, 10**6))
def test_stream_equals_batch(values: list[float], start: int) -> None:
    line = Slope()
    for step, value in enumerate(values, start):
        line.update(step, value)
    (slope, level), residuals, *_ = np.polyfit(np.arange(len(values)), values, 1, full=True)
    assert line.slope() == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert line.at(start) == pytest.approx(level, rel=1e-6, abs=1e-4)
    expected = math.sqrt(float(residuals[0] if len(residuals) else 0.0) / (len(values) - 2))
    assert line.sd_of_residuals() == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_points_at_one_place_have_no_slope() -> None:
    line = Slope()
    assert math.isnan(line.slope())
    line.update(4, 1.0)
    line.update(4, 3.0)
    assert (line.slope(), line.at(9)) == (0.0, 2.0)
