"""Simulated language-model runs of 6,000 steps, hurt at known rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.scoreboard.faults import (
    Collapse,
    DataBurst,
    Divergence,
    Explosion,
    Fault,
    HardBatch,
    HealingSpike,
    NotANumber,
    Plateau,
    Shift,
    SlowDivergence,
    WiderNoise,
    harmed,
)
from tests.scoreboard.noise.protocol import ProtocolRun
from tests.scoreboard.series import records_of
from tests.scoreboard.truth import LabelledRun

SEED = 1_000
NUM_RECORDS = 6_000
NUM_MIXED = 4

MIXED: tuple[tuple[float, Fault], ...] = (
    (0.15, HardBatch(6.0)),
    (0.25, HardBatch(15.0)),
    (0.40, HealingSpike(relative=0.25, tau=30.0, grad_times=3.0)),
    (0.55, Shift()),
    (0.70, Shift(scales=5.0, num_rows=400, ramp=True)),
    (0.88, WiderNoise()),
)
"""Isolated points of 6 and 15 standard deviations, a decaying spike, a shift, a ramp, and a wider noise."""

SINGLE: dict[str, tuple[tuple[float, Fault], ...]] = {
    "spikes that heal": (
        (0.3, HealingSpike()),
        (0.5, HealingSpike(relative=0.5, tau=4.0)),
        (0.8, HealingSpike(tau=40.0)),
    ),
    "bad data": ((0.35, DataBurst()), (0.7, DataBurst(num_rows=12, relative=1.0))),
    "explosions": ((0.3, Explosion()), (0.6, Explosion(num_rows=2, times=300.0))),
    "lost": ((0.25, HealingSpike()), (0.6, Divergence())),
    "lost slowly": ((0.6, SlowDivergence(relative=0.6)),),
    "no number": ((0.5, NotANumber()),),
    "collapse": ((0.4, Collapse()),),
    "plateau": ((0.45, Plateau()),),
}


def runs(every: int = 1) -> Iterator[LabelledRun]:
    """``every``: steps between two rows."""
    for number in range(NUM_MIXED):
        yield _run(f"mixed{number}", MIXED, [SEED, number], every)
    for number, (name, faults) in enumerate(SINGLE.items()):
        yield _run(name, faults, [SEED, 100 + number], every)


def _run(name: str, faults: tuple[tuple[float, Fault], ...], seed: list[int], every: int) -> LabelledRun:
    random = np.random.default_rng(seed)
    columns, labels = harmed(ProtocolRun().columns(random, NUM_RECORDS), faults, random)
    return LabelledRun(f"simulated/{name} @{every}", "simulated", records_of(columns, every), labels)
