"""Noise whose width depends on what it was: GARCH(1,1) (Bollerslev 1986)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tests.scoreboard.series import Array


@dataclass(frozen=True)
class Garch:
    """v_t = sd² (1 − alpha − beta) + alpha e²_{t−1} + beta v_{t−1}; e_t = √v_t · N(0, 1)."""

    sd: float = 0.05
    alpha: float = 0.12
    beta: float = 0.86

    def factors(self, random: np.random.Generator, num_values: int) -> Array:
        draws = random.standard_normal(num_values)
        constant = self.sd**2 * (1.0 - self.alpha - self.beta)
        variance, noise = self.sd**2, np.empty(num_values)
        for index, draw in enumerate(draws.tolist()):
            noise[index] = error = math.sqrt(variance) * draw
            variance = constant + self.alpha * error * error + self.beta * variance
        return 1.0 + noise
