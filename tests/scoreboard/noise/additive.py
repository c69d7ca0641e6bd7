"""Noise that is added to a level: normal, heavy-tailed, and with outliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.scoreboard.series import Array


@dataclass(frozen=True)
class Normal:
    sd: float = 0.05

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        return 1.0 + self.sd * random.standard_normal(num_values)


@dataclass(frozen=True)
class StudentT:
    scale: float = 0.05
    degrees: float = 3.0

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        return 1.0 + self.scale * random.standard_t(self.degrees, num_values)


@dataclass(frozen=True)
class Outliers:
    """Normal noise of which a ``share`` is ``times`` as wide (Tukey's contaminated normal)."""

    share: float
    sd: float = 0.05
    times: float = 10.0
    one_sided: bool = False

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        draws = random.standard_normal(num_values)
        is_outlier = random.random(num_values) < self.share
        wide = self.times * (np.abs(draws) if self.one_sided else draws)
        return 1.0 + self.sd * np.where(is_outlier, wide, draws)
