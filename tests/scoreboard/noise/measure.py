"""False signals and power of the signal stage on one kind of noise."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from holter.pipeline.core.signals import SignalSettings, SignalStage
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import LOSS
from tests.scoreboard.episodes import episode_starts
from tests.scoreboard.noise import jumps
from tests.scoreboard.noise.kinds import ALL, NUM_RECORDS, SEED, healthy_run, log_sd
from tests.scoreboard.noise.oracle import Known, statistics_of

JUMPS_A_RUN = 20
ORACLE_LOG_SD = 0.6
"""Up to this spread of the logarithm a jump has to be seen; above it, what the oracle sees is the measure."""


@dataclass(frozen=True)
class Plan:
    """``num_rows`` healthy rows in runs of ``num_records``; one value of ``every`` is logged."""

    num_rows: int = 100_000
    num_records: int = NUM_RECORDS
    every: int = 1
    metric: str = LOSS
    settings: SignalSettings | None = None

    @property
    def num_runs(self) -> int:
        return max(1, math.ceil(self.num_rows / self.num_records))


@dataclass(frozen=True)
class Measured:
    """``power`` and ``oracle_power`` are shares of jumps seen while they last; NaN where not measured."""

    name: str
    log_sd: float
    num_rows: int
    num_false: int
    power: float = math.nan
    oracle_power: float = math.nan

    @property
    def false_per_10k(self) -> float:
        return 1e4 * self.num_false / self.num_rows


def measure(name: str, plan: Plan, with_power: bool = True) -> Measured:
    num_false, seen, tried = 0, 0, 0
    for run in range(plan.num_runs):
        records = healthy_run(name, run, plan.num_records, plan.every, plan.metric)
        random = np.random.default_rng([SEED, run])
        places = jumps.places(random, plan.num_records, JUMPS_A_RUN) if with_power else []
        rows, hits = _watch(name, records, places, plan)
        num_false += len(episode_starts(rows))
        seen, tried = seen + sum(hits), tried + len(hits)
    num_rows = plan.num_runs * plan.num_records
    power = seen / tried if tried else math.nan
    return Measured(
        name, log_sd(name), num_rows, num_false, power, oracle_power(name, 1e4 * num_false / num_rows, plan.every)
    )


def _watch(name: str, records: list[StepRecord], places: list[int], plan: Plan) -> tuple[list[int], list[bool]]:
    """Rows at which an incident opened, and for each place whether a jump there was seen."""
    stage = SignalStage("scoreboard", name, plan.settings)
    multiplicative = name in ALL and ALL[name].multiplicative
    opened, hits, pending = [], [], list(reversed(places))
    for row, item in enumerate(records):
        while pending and pending[-1] == row:
            pending.pop()
            if stage.incident is None:
                twin = copy.deepcopy(stage)
                hits.append(any(_opens(twin, r) for r in jumps.jumped(records, row, plan.metric, multiplicative)))
        if _opens(stage, item):
            opened.append(row)
    return opened, hits


def _opens(stage: SignalStage, item: StepRecord) -> bool:
    return any(signal.phase == "open" for signal in stage.update(item, item.ts))


def oracle_power(
    name: str, false_per_10k: float, every: int = 1, num_values: int = 100_000, num_jumps: int = 500
) -> float:
    """Share of jumps that the likelihood-ratio test sees at this false rate (at least .1, which can be measured)."""
    noise = ALL[name].noise if name in ALL else None
    if not isinstance(noise, Known) or log_sd(name) <= ORACLE_LOG_SD:
        return math.nan
    noise = noise.thinned(every)
    random = np.random.default_rng(SEED)
    factors = noise.factors(random, num_values)
    statistics = statistics_of(noise, factors, jumps.TIMES, jumps.NUM_RECORDS)
    threshold = _threshold(statistics, max(0.1, false_per_10k))
    seen = 0
    for row in random.integers(200, num_values - jumps.NUM_RECORDS, num_jumps):
        part = factors[row - 200 : row + jumps.NUM_RECORDS].copy()
        part[200:] *= jumps.TIMES
        seen += bool((statistics_of(noise, part, jumps.TIMES, jumps.NUM_RECORDS)[200:] > threshold).any())
    return seen / num_jumps


def _threshold(statistics: np.ndarray[tuple[int, ...], np.dtype[np.float64]], false_per_10k: float) -> float:
    """The lowest value above which there are at most so many episodes."""
    allowed = false_per_10k * statistics.size / 1e4
    low, high = float(np.median(statistics)), float(statistics.max())
    for _ in range(40):
        middle = 0.5 * (low + high)
        if len(episode_starts(np.flatnonzero(statistics > middle).tolist())) > allowed:
            low = middle
        else:
            high = middle
    return high
