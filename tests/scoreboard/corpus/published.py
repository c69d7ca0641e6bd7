"""Published numbers of two runs, with a pre-history made up for them and missing rows filled in log-linearly.

BLOOM-176B, 2022-04-12, and the first 104B experiment of BigScience, from their public chronicles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.series import records_of
from tests.scoreboard.truth import Label, LabelledRun

SEED = 176
NUM_BEFORE = 500
Point = tuple[int, float, float]
"""Step, loss, gradient norm."""

BLOOM_176B: tuple[Point, ...] = (
    (31214, 2.198845, 0.242),
    (31215, 2.220424, 0.947),
    (31216, 2.595213, 2.390),
    (31217, 2.241558, 15.886),
    (31218, 2.345279, 145.119),
    (31219, 5.098124, 960.351),
    (31220, 3.492029, 353.201),
    (31221, 3.213059, 379.330),
    (31222, 2.804948, 650.246),
    (31250, 2.215699, 0.267),
    (31251, 2.235667, 0.205),
)
BIGSCIENCE_104B: tuple[Point, ...] = (
    (7000, 6.4447, 98_258.0),
    (7010, 11.4203, 219_646.0),
    (7220, 7.1551, 16_922.0),
)


def runs() -> Iterator[LabelledRun]:
    yield bloom_176b()
    yield bigscience_104b()


def bloom_176b(seed: int = SEED) -> LabelledRun:
    """The spike of step 31219, announced by the gradient norm four steps before, healed at 31250."""
    steps, columns = _filled(BLOOM_176B, every=1, loss_sd=0.025, seed=seed)
    label = Label(steps.index(31215), steps.index(31249), "loss_spike", "spike")
    return LabelledRun("published/BLOOM-176B", "BLOOM-176B", records_of(columns, steps=steps), [label])


def bigscience_104b(seed: int = SEED) -> LabelledRun:
    """A jump at step 7010 that never came back; the run ended in NaN."""
    steps, columns = _filled(BIGSCIENCE_104B, every=10, loss_sd=0.03, seed=seed)
    label = Label(steps.index(7010), len(steps) - 1, "divergence", "divergence", recovered=False)
    return LabelledRun("published/BigScience-104B", "BigScience-104B", records_of(columns, steps=steps), [label])


def _filled(points: Sequence[Point], every: int, loss_sd: float, seed: int) -> tuple[list[int], dict[str, list[float]]]:
    """``NUM_BEFORE`` rows around the first point's values, then the points and what lies between them."""
    random = np.random.default_rng(seed)
    first_step, loss, norm = points[0]
    steps = list(range(first_step - NUM_BEFORE * every, points[-1][0] + 1, every))
    before = {
        LOSS: (loss + loss_sd * random.standard_normal(NUM_BEFORE)).tolist(),
        GRAD_NORM: (norm * np.exp(0.15 * random.standard_normal(NUM_BEFORE))).tolist(),
    }
    known = [point[0] for point in points]
    after = {
        metric: np.exp(np.interp(steps[NUM_BEFORE:], known, [math.log(point[at]) for point in points])).tolist()
        for metric, at in ((LOSS, 1), (GRAD_NORM, 2))
    }
    return steps, {metric: before[metric] + after[metric] for metric in before}
