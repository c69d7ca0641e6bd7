"""The view of a metric: what it learns, and that it is the same after a restore."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.core.detect.view import MetricView, ViewSettings
from holter.pipeline.core.detect.view_state import ViewState


def view() -> MetricView:
    return MetricView(ViewSettings(), negligible_share=0.002)


def noise(count: int, level: float = 2.0, sd: float = 0.03, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [level + draw.gauss(0.0, sd) for _ in range(count)]


def feed(one: MetricView, values: list[float], start: int = 0) -> list[int]:
    """The steps at which there was a reading."""
    return [start + at for at, value in enumerate(values) if one.observe(start + at, value) is not None]


def test_level_and_scale_are_those_of_the_noise() -> None:
    one = view()
    feed(one, noise(2000))
    assert one.level() == pytest.approx(2.0, abs=0.03)
    assert one.scale() == pytest.approx(0.03, rel=0.35)


def test_a_burst_does_not_move_its_own_reference() -> None:
    one = view()
    feed(one, noise(300))
    feed(one, [8.0] * 40, start=300)
    assert one.level() < 2.2


def test_a_level_that_lasts_becomes_the_baseline() -> None:
    one = view()
    feed(one, noise(300))
    feed(one, noise(100, level=3.0, seed=1), start=300)
    assert one.level() == pytest.approx(3.0, abs=0.1)


def test_a_fall_is_followed_at_once() -> None:
    one = view()
    feed(one, noise(300))
    feed(one, noise(4, level=1.0, seed=1), start=300)
    assert one.level() == pytest.approx(1.0, abs=0.1)


def test_what_is_small_against_the_start_is_as_good_as_zero() -> None:
    one = view()
    feed(one, [5.0 * 0.8**at for at in range(60)])
    draw = random.Random(1)
    assert feed(one, [1e-7 * math.exp(3.0 * draw.gauss(0.0, 1.0)) for _ in range(300)], start=60) == []
    assert feed(one, [3.0], start=400) == [400]


def test_a_loss_that_is_negative_is_seen_as_it_is() -> None:
    one = view()
    feed(one, noise(100, level=0.5, sd=0.1))
    feed(one, noise(200, level=-3.0, sd=0.1, seed=2), start=100)
    assert one.level() == pytest.approx(-3.0, abs=0.2)
    assert one.scale() == pytest.approx(0.1, rel=0.8)


def test_a_band_is_known_once_the_view_is_no_longer_young() -> None:
    one = view()
    assert one.band() is None
    feed(one, noise(100))
    band = one.band()
    assert band is not None
    level, low, high = band
    assert low < level < high
    assert high - low == pytest.approx(6 * 0.03, rel=0.5)


def test_going_back_drops_the_later_values() -> None:
    one = view()
    feed(one, noise(200))
    feed(one, [1.0] * 20, start=200)
    one.rewind(205)
    assert max(one._steps) == 205
    one.rewind(-1)
    assert len(one) == 0
    assert math.isnan(one.level())


@pytest.mark.parametrize("num_left", [1, 2, 3])
def test_a_far_value_is_read_where_going_back_left_almost_nothing(num_left: int) -> None:
    one = view()
    feed(one, noise(300))
    oldest = next(iter(one._steps))
    one.rewind(oldest + num_left - 1)
    reading = one.observe(300, 50.0)
    assert reading is not None
    assert reading.raw > 10


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(0, 400), kind=st.sampled_from(["calm", "spiky", "signed"]))
def test_a_restored_view_goes_on_as_the_other(seed: int, count: int, kind: str) -> None:
    draw = random.Random(seed)
    level = -1.0 if kind == "signed" else 2.0
    values = [
        level + draw.gauss(0.0, 0.05) + (draw.random() < 0.05) * (kind == "spiky") * draw.expovariate(0.5)
        for _ in range(count + 150)
    ]
    one = view()
    feed(one, values[:count])
    raw = msgspec.msgpack.encode(one.state())
    other = MetricView(ViewSettings(), 0.002, msgspec.msgpack.decode(raw, type=ViewState))
    assert msgspec.msgpack.encode(other.state()) == raw
    for at, value in enumerate(values[count:]):
        assert one.observe(count + at, value) == other.observe(count + at, value)
    assert one.state() == other.state()
