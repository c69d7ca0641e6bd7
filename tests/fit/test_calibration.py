from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.fit.calibration import EDGES, base_rate, brier_score, reliability_table

FORECASTS = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.floats(0.1, 2.0)), min_size=1, max_size=40)


@given(rows=FORECASTS)
def test_every_forecast_is_in_one_bin(rows: list[tuple[float, bool, float]]) -> None:
    forecast, outcome, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    table = reliability_table(forecast, outcome, weight)
    assert sum(row.num_incidents for row in table) == pytest.approx(weight.sum())
    assert all(row.low - 1e-9 <= row.forecast <= row.high + 1e-9 for row in table)
    said = sum(row.num_incidents * row.forecast for row in table)
    assert said == pytest.approx(float(forecast @ weight))


def test_certainty_is_in_the_last_bin() -> None:
    (row,) = reliability_table(np.ones(3), np.array([1.0, 1.0, 0.0]), np.ones(3))
    assert (row.low, row.high, row.healed) == (EDGES[-2], EDGES[-1], pytest.approx(2 / 3))


@given(rows=FORECASTS)
def test_always_saying_the_base_rate_scores_its_variance(rows: list[tuple[float, bool, float]]) -> None:
    _, outcome, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    rate = base_rate(outcome, weight)
    assert brier_score(np.full_like(outcome, rate), outcome, weight) == pytest.approx(rate * (1 - rate), abs=1e-12)
