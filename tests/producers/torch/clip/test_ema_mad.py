"""The report's rule, written out in plain floats."""

from __future__ import annotations

import math
import statistics
from typing import Literal

import pytest

from holter.producers.torch.clip import EmaMad
from tests.producers.torch.clip.gradients import feed

pytestmark = pytest.mark.torch

TAPE = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 50.0, 1.0, 1.3, 0.7, 1000.0, 1.1, 1.0, 2.0, 0.9]


@pytest.mark.parametrize("source", ["clipped", "raw"])
def test_the_threshold_is_average_plus_median_deviation(source: Literal["clipped", "raw"]) -> None:
    clipper = EmaMad(alpha=1.5, beta=3.0, decay=0.9, window=6, min_samples=4, warmup_norm=None, feed=source)
    average, norms = math.nan, list[float]()
    for norm in TAPE:
        ceiling = math.inf
        if len(norms) >= 4:
            recent = norms[-6:]
            middle = statistics.median(recent)
            ceiling = 1.5 * average + 3.0 * statistics.median(abs(each - middle) for each in recent)
        assert feed(clipper, [norm]) == pytest.approx([min(norm, ceiling)], rel=1e-5)
        fed = norm if source == "raw" else min(norm, ceiling)
        average = fed if not norms else 0.9 * average + 0.1 * fed
        norms.append(fed)


def test_a_spike_does_not_lift_its_own_threshold() -> None:
    quiet = [1.0, 1.1, 0.9] * 20
    one, other = EmaMad(), EmaMad(feed="raw")
    feed(one, [*quiet, 1000.0])
    feed(other, [*quiet, 1000.0])
    assert feed(one, [1000.0])[0] < 2.0
    assert feed(other, [1000.0])[0] > 30.0


def test_the_warm_up_has_a_fixed_ceiling_that_is_not_learnt() -> None:
    clipper = EmaMad(min_samples=5)
    assert feed(clipper, [4.0] * 5) == pytest.approx([1.0] * 5, rel=1e-5)
    assert feed(clipper, [4.0])[0] == pytest.approx(4.0, rel=1e-5)
