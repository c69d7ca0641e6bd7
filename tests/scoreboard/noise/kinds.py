"""The list of noise kinds, and healthy runs made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.noise.additive import Normal, Outliers, StudentT
from tests.scoreboard.noise.drift import Autoregressive, Growth, Sawtooth
from tests.scoreboard.noise.multiplicative import Bursts, LogNormal, LogWander, ShotNoise
from tests.scoreboard.noise.protocol import ProtocolRun
from tests.scoreboard.noise.two_level import Telegraph
from tests.scoreboard.noise.volatility import Garch
from tests.scoreboard.series import Array, records_of

SEED = 4_000
NUM_RECORDS = 6_000
LEVEL = 2.5


class Noise(Protocol):
    def factors(self, random: np.random.Generator, num_values: int) -> Array: ...


@dataclass(frozen=True)
class Kind:
    """``multiplicative``: a jump multiplies what is there; else it is added to it."""

    noise: Noise
    multiplicative: bool = False


KINDS: dict[str, Kind] = {
    "normal": Kind(Normal()),
    "t3": Kind(StudentT()),
    "3% outliers": Kind(Outliers(0.03)),
    "10% outliers": Kind(Outliers(0.10)),
    "telegraph": Kind(Telegraph()),
    "log-OU": Kind(LogWander(), multiplicative=True),
    "bursts": Kind(Bursts(), multiplicative=True),
    "log-normal": Kind(LogNormal(), multiplicative=True),
    "growth": Kind(Growth(), multiplicative=True),
    "GARCH": Kind(Garch()),
    "AR(1)": Kind(Autoregressive()),
    "sawtooth": Kind(Sawtooth()),
}

HARDER: dict[str, Kind] = {
    "normal .25": Kind(Normal(0.25)),
    "t3 .15": Kind(StudentT(0.15)),
    "t2": Kind(StudentT(degrees=2.0)),
    "10% one-sided": Kind(Outliers(0.10, one_sided=True)),
    "20% outliers": Kind(Outliers(0.20)),
    "telegraph fast": Kind(Telegraph(high=4.0, dwell_low=3.0, dwell_high=3.0)),
    "telegraph slow": Kind(Telegraph(high=2.0, dwell_low=80.0, dwell_high=80.0)),
    "telegraph rare": Kind(Telegraph(high=3.0, dwell_low=60.0, dwell_high=4.0)),
    "log-OU .4": Kind(LogWander(log_sd=0.4), multiplicative=True),
    "log-OU slow": Kind(LogWander(log_sd=0.8, tau=200.0), multiplicative=True),
    "bursts .5": Kind(Bursts(calm_sd=0.1, burst_sd=0.5), multiplicative=True),
    "shots": Kind(ShotNoise(), multiplicative=True),
    "log-normal .55": Kind(LogNormal(0.55), multiplicative=True),
    "log-normal 1.5": Kind(LogNormal(1.5), multiplicative=True),
    "growth fast": Kind(Growth(e_fold=300.0, log_sd=0.3), multiplicative=True),
    "GARCH .15": Kind(Garch(sd=0.15)),
    "AR(1) .99": Kind(Autoregressive(correlation=0.99, sd=0.15)),
    "sawtooth steep": Kind(Sawtooth(period=25, height=0.8, sd=0.05)),
}
"""The same kinds with other parameters: what holds for one setting only is not learned noise."""

PROTOCOL = "protocol"
ALL = {**KINDS, **HARDER}
NAMES = (*KINDS, PROTOCOL)


def level_of(random_run: int, num_values: int) -> Array:
    """Runs with an even number fall as a loss does, those with an odd one stay where they are."""
    if random_run % 2:
        return np.full(num_values, LEVEL)
    return LEVEL * (1.0 + 2.0 * (1.0 + np.arange(num_values) / 100.0) ** -0.7)


def columns_of(name: str, run: int, num_records: int, every: int = 1, metric: str = LOSS) -> dict[str, Array]:
    """Of every ``every`` values of the noise one is logged; with ``metric`` the gradient norm, the loss is calm."""
    random = np.random.default_rng([SEED, run, sum(name.encode())])
    num_values = num_records * every
    if name == PROTOCOL:
        return {metric: column[::every] for metric, column in ProtocolRun().columns(random, num_values).items()}
    factors = np.abs(ALL[name].noise.factors(random, num_values))[::every]
    if metric == GRAD_NORM:
        calm = Normal(0.01).factors(random, num_records)
        return {LOSS: level_of(run, num_records) * calm, GRAD_NORM: 0.4 * factors}
    return {metric: level_of(run, num_records) * factors}


def healthy_run(
    name: str, run: int, num_records: int = NUM_RECORDS, every: int = 1, metric: str = LOSS
) -> list[StepRecord]:
    return records_of(columns_of(name, run, num_records, every, metric), every)


def log_sd(name: str) -> float:
    """Standard deviation of the logarithm of the noise."""
    if name == PROTOCOL:
        return ProtocolRun().loss_sd / ProtocolRun().floor
    noise = ALL[name].noise
    if isinstance(noise, Growth):
        return noise.log_sd
    factors = noise.factors(np.random.default_rng(SEED), 50_000)
    return float(np.log(factors[factors > 0.0]).std())
