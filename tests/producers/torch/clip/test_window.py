from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holter.producers.torch.clip.window import appended, median_deviation, quantile

pytestmark = pytest.mark.torch


@given(st.lists(st.floats(0, 1e4, width=32), min_size=1, max_size=25), st.floats(0, 1))
def test_order_statistics_are_those_of_the_newest_values(values: list[float], share: float) -> None:
    ring = torch.zeros(7)
    for num_seen, value in enumerate(values):
        ring = appended(ring, torch.tensor(num_seen), torch.tensor(value))
    newest, count = np.array(values[-7:]), torch.tensor(len(values))
    assert float(quantile(ring, count, share)) == pytest.approx(np.quantile(newest, share), rel=1e-4, abs=1e-3)
    deviation = np.median(np.abs(newest - np.median(newest)))
    assert float(median_deviation(ring, count)) == pytest.approx(deviation, rel=1e-4, abs=1e-3)


def test_of_nothing_the_quantile_is_infinite() -> None:
    assert float(quantile(torch.zeros(3), torch.tensor(0), 0.5)) == float("inf")
