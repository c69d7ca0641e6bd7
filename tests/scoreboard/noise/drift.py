"""Levels that move by themselves: growth, correlated noise, and the sawtooth of epochs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.scoreboard.series import Array, autoregressive


@dataclass(frozen=True)
class Growth:
    """A level that grows e-fold every ``e_fold`` records, as a value loss does while returns grow."""

    e_fold: float = 1000.0
    log_sd: float = 0.1

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        noise = self.log_sd * random.standard_normal(num_values)
        return np.exp(np.arange(num_values) / self.e_fold + noise)


@dataclass(frozen=True)
class Autoregressive:
    """AR(1) around the level, stationary sd ``sd``."""

    correlation: float = 0.9
    sd: float = 0.1

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        innovations = self.sd * np.sqrt(1.0 - self.correlation**2) * random.standard_normal(num_values)
        return 1.0 + autoregressive(innovations, self.correlation)


@dataclass(frozen=True)
class Sawtooth:
    """Rises by ``height`` over each ``period`` and falls back at its end, as an average that starts anew does."""

    period: int = 100
    height: float = 0.3
    sd: float = 0.03

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        phase = (np.arange(num_values) + int(random.integers(self.period))) % self.period / self.period
        return 1.0 + self.height * (phase - 0.5) + self.sd * random.standard_normal(num_values)
