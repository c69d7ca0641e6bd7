"""Shapes that healthy losses are made of."""

from __future__ import annotations

import numpy as np

from tests.scoreboard.series import Array, autoregressive


def power_law(num_rows: int, start: float, floor: float, tau: float, power: float = 0.7) -> Array:
    return np.asarray(floor + (start - floor) * (1.0 + np.arange(num_rows) / tau) ** -power)


def exponential(num_rows: int, start: float, floor: float, tau: float) -> Array:
    return np.asarray(floor + (start - floor) * np.exp(-np.arange(num_rows) / tau))


def log_noise(random: np.random.Generator, num_rows: int, sd: float) -> Array:
    return np.asarray(np.exp(sd * random.standard_normal(num_rows)))


def correlated(random: np.random.Generator, num_rows: int, correlation: float, sd: float) -> Array:
    """AR(1) of stationary sd ``sd``."""
    innovations = sd * np.sqrt(1.0 - correlation**2) * random.standard_normal(num_rows)
    return autoregressive(innovations, correlation)


def phase(num_rows: int, period: int) -> Array:
    """0 at the start of each period, up to one at its end."""
    return np.arange(num_rows) % period / period


def relaxing_steps(num_rows: int, rows: list[int], heights: list[float], tau: float) -> Array:
    """Jumps that die away: what a new day, a restart of the learning rate or new data leave."""
    total = np.zeros(num_rows)
    for row, height in zip(rows, heights, strict=True):
        total[row:] += height * np.exp(-np.arange(num_rows - row) / tau)
    return total
