"""Noise that multiplies a level: log-normal, a wandering logarithm, and bursts of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tests.scoreboard.series import Array, autoregressive


@dataclass(frozen=True)
class LogNormal:
    log_sd: float = 1.0

    def thinned(self, every: int) -> LogNormal:
        """The noise of which one value in ``every`` is kept."""
        return self

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        return np.asarray(np.exp(self.log_sd * random.standard_normal(num_values)))


@dataclass(frozen=True)
class LogWander:
    """The logarithm is an Ornstein-Uhlenbeck process: stationary sd ``log_sd``, correlation time ``tau`` records."""

    log_sd: float = 0.8
    tau: float = 20.0

    @property
    def correlation(self) -> float:
        return math.exp(-1.0 / self.tau)

    @property
    def innovation_sd(self) -> float:
        return self.log_sd * math.sqrt(1.0 - self.correlation**2)

    def thinned(self, every: int) -> LogWander:
        """The noise of which one value in ``every`` is kept."""
        return replace(self, tau=self.tau / every)

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        innovations = self.innovation_sd * random.standard_normal(num_values)
        innovations[0] *= self.log_sd / self.innovation_sd
        return np.asarray(np.exp(autoregressive(innovations, self.correlation)))


@dataclass(frozen=True)
class Bursts:
    """Log-normal noise whose log sd is ``calm_sd``, and ``burst_sd`` in bursts of geometric length."""

    calm_sd: float = 0.15
    burst_sd: float = 1.2
    mean_calm: float = 150.0
    mean_burst: float = 60.0

    def thinned(self, every: int) -> Bursts:
        """The noise of which one value in ``every`` is kept: the two-state chain taken ``every`` times."""
        leave_calm, leave_burst = 1.0 / self.mean_calm, 1.0 / self.mean_burst
        mixed = (1.0 - (1.0 - leave_calm - leave_burst) ** every) / (leave_calm + leave_burst)
        return replace(self, mean_calm=1.0 / (leave_calm * mixed), mean_burst=1.0 / (leave_burst * mixed))

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        sds = np.where(self._is_burst(random, num_values), self.burst_sd, self.calm_sd)
        return np.asarray(np.exp(sds * random.standard_normal(num_values)))

    def _is_burst(self, random: np.random.Generator, num_values: int) -> Array:
        num_dwells = 2 + int(2 * num_values / min(self.mean_calm, self.mean_burst))
        dwells = np.empty(2 * num_dwells, dtype=np.int64)
        dwells[0::2] = random.geometric(1.0 / self.mean_calm, num_dwells)
        dwells[1::2] = random.geometric(1.0 / self.mean_burst, num_dwells)
        return np.repeat(np.tile([0.0, 1.0], num_dwells), dwells)[:num_values]


@dataclass(frozen=True)
class ShotNoise:
    """Isolated excursions of exponential height that die away: hard batches of a run that is otherwise calm."""

    rate: float = 0.02
    mean_height: float = 0.5
    tau: float = 3.0
    calm_sd: float = 0.05

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        shots = (random.random(num_values) < self.rate) * random.exponential(self.mean_height, num_values)
        excursion = autoregressive(shots, math.exp(-1.0 / self.tau))
        return np.asarray((1.0 + excursion) * np.exp(self.calm_sd * random.standard_normal(num_values)))
