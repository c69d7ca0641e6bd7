from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.stats.cusum import Cusum

Z = st.lists(st.floats(-6.0, 6.0), max_size=60)


@given(values=Z)
def test_stream_equals_batch(values: list[float]) -> None:
    """The up sum is the greatest sum of capped values less their slack over any stretch that ends now, or 0."""
    chart = Cusum(0.5, 5.0)
    for step, z in enumerate(values):
        chart.update(step, z)
    gains = [min(4.0, max(-4.0, z)) - 0.5 for z in values]
    stretches = [sum(gains[start:]) for start in range(len(gains))]
    assert chart.up == pytest.approx(max([0.0, *stretches]), abs=1e-9)


@given(values=Z)
def test_the_sums_mirror_each_other(values: list[float]) -> None:
    chart, mirrored = Cusum(), Cusum()
    for step, z in enumerate(values):
        chart.update(step, z)
        mirrored.update(step, -z)
    assert (chart.up, chart.onset_step("up")) == (mirrored.down, mirrored.onset_step("down"))
    assert chart.alarm() == {"up": "down", "down": "up", "": ""}[mirrored.alarm()]


def test_a_shift_is_found_when_the_tables_say_and_dated_where_it_began() -> None:
    """Slack .5, limit 5: an average of 10.4 values to the alarm for a shift by one standard deviation."""
    chance = random.Random(11)
    lengths, onsets = [], []
    for _ in range(600):
        chart, step = Cusum(0.5, 5.0, cap=100.0), 0
        while not chart.alarm():
            chart.update(step, chance.gauss(1.0, 1.0))
            step += 1
        lengths.append(step)
        onsets.append(chart.onset_step("up") or 0)
    assert sum(lengths) / len(lengths) == pytest.approx(10.4, abs=0.6)
    assert sorted(onsets)[300] <= 1


def test_a_single_wild_value_is_no_shift() -> None:
    chart = Cusum(0.75, 12.0)
    chart.update(0, 1e9)
    assert (chart.alarm(), chart.up) == ("", 3.25)
    chart.reset()
    assert (chart.up, chart.onset_step("up")) == (0.0, None)
