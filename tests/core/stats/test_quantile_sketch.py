from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats.quantile_sketch import MAX_BINS, QuantileSketch

SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)


def sketch_of(values: list[float]) -> QuantileSketch:
    sketch = QuantileSketch()
    for value in values:
        sketch.update(value)
    return sketch


@given(values=st.lists(st.one_of(st.floats(-1e6, -1e-6), st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=60))
def test_stream_equals_batch_to_one_percent(values: list[float]) -> None:
    sketch, in_order = sketch_of(values), sorted(values)
    for share in SHARES:
        exact = in_order[math.floor(share * (len(values) - 1))]
        assert sketch.quantile(share) == pytest.approx(exact, rel=0.0101)


@given(values=st.lists(st.floats(1e-290, 1e290), min_size=1, max_size=30), data=st.data())
def test_parts_in_any_order_make_the_same_sketch_even_where_bins_ran_out(
    values: list[float], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    merged = sketch_of(shuffled[:cut])
    merged.merge(sketch_of(shuffled[cut:]))
    whole = sketch_of(values)
    assert [merged.quantile(share) for share in SHARES] == [whole.quantile(share) for share in SHARES]


def test_the_tail_of_log_normal_values_is_right_to_one_percent() -> None:
    chance = random.Random(5)
    values = [math.exp(chance.gauss(0.0, 1.0)) for _ in range(5000)]
    sketch, in_order = sketch_of(values), sorted(values)
    assert sketch.quantile(0.999) == pytest.approx(in_order[int(0.999 * 4999)], rel=0.0101)


def test_its_size_is_bounded() -> None:
    sketch = sketch_of([10.0**power for power in range(-280, 280)] + [-(10.0**power) for power in range(-280, 280)])
    assert len(sketch.to_bytes()) <= 2 * 8 * MAX_BINS + 100
    assert sketch.quantile(1.0) == 1e279


def test_of_no_values_nothing_is_known_and_accuracies_are_not_mixed() -> None:
    assert math.isnan(QuantileSketch().quantile(0.5))
    with pytest.raises(ValueError, match="different parameters"):
        QuantileSketch(0.01).merge(QuantileSketch(0.05))
