"""A random telegraph: a level that jumps between two values, as in reinforcement learning or alternating losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.scoreboard.series import Array


@dataclass(frozen=True)
class Telegraph:
    """``high`` times the lower level; dwell times are geometric with these means."""

    high: float = 2.5
    dwell_low: float = 10.0
    dwell_high: float = 10.0
    sd: float = 0.05

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        levels = np.where(self._states(random, num_values), self.high, 1.0)
        return np.asarray(levels * (1.0 + self.sd * random.standard_normal(num_values)))

    def _states(self, random: np.random.Generator, num_values: int) -> Array:
        num_dwells = 2 + int(2 * num_values / min(self.dwell_low, self.dwell_high))
        dwells = np.empty(2 * num_dwells, dtype=np.int64)
        dwells[0::2] = random.geometric(1.0 / self.dwell_low, num_dwells)
        dwells[1::2] = random.geometric(1.0 / self.dwell_high, num_dwells)
        return np.repeat(np.tile([0.0, 1.0], num_dwells), dwells)[:num_values]
