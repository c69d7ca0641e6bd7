"""Tables, graphs and series: click rates with day edges, full batches, seasons, numbers of any size."""

from __future__ import annotations

import numpy as np

from holter.schemas.telemetry import LOSS
from tests.scoreboard.faults import Columns
from tests.scoreboard.kinds.curves import log_noise, phase, power_law, relaxing_steps


def click_rate(random: np.random.Generator) -> Columns:
    """Log-loss trained day by day: a new day's clicks are harder, and soon learned."""
    rows = 3_000
    days = list(range(400, rows, 400))
    edges = relaxing_steps(rows, days, list(random.uniform(0.01, 0.05, len(days))), 40.0)
    return {LOSS: (power_law(rows, 0.69, 0.44, 20.0) + edges) * log_noise(random, rows, 0.025)}


def graph_full_batch(random: np.random.Generator) -> Columns:
    """The whole graph in each step: hardly any noise but that of dropout."""
    rows = 600
    return {LOSS: power_law(rows, 1.95, 0.25, 40.0) * log_noise(random, rows, 0.012)}


def deterministic(random: np.random.Generator) -> Columns:
    """A quasi-Newton method on a fixed set: no noise, steps of very unequal size."""
    rows = 500
    falls = np.where(random.random(rows) < 0.15, random.uniform(0.02, 0.2, rows), random.uniform(0.0, 0.004, rows))
    return {LOSS: 80.0 * np.exp(-np.cumsum(falls))}


def seasonal(random: np.random.Generator) -> Columns:
    """Windows of a series in order of time: the loss has its seasons."""
    rows = 2_100
    season = 1.0 + 0.4 * np.sin(2.0 * np.pi * phase(rows, 70)) + 0.15 * np.sin(2.0 * np.pi * phase(rows, 10))
    return {LOSS: power_law(rows, 1.0, 0.15, 60.0) * season * log_noise(random, rows, 0.08)}


def unscaled_regression(random: np.random.Generator) -> Columns:
    """Squared errors of prices: from 1e10 to 1e6, heavy-tailed."""
    rows = 1_500
    return {LOSS: power_law(rows, 1e10, 1e6, 2.0, 1.8) * np.exp(0.2 * random.standard_t(4, rows))}


def tiny_regression(random: np.random.Generator) -> Columns:
    """Squared errors of small physical quantities, around 1e-8."""
    rows = 1_500
    return {LOSS: power_law(rows, 5e-7, 8e-9, 30.0, 1.0) * log_noise(random, rows, 0.1)}


def quantised(random: np.random.Generator) -> Columns:
    """Written with one decimal: most neighbours are equal."""
    rows = 1_200
    return {LOSS: power_law(rows, 6.9, 2.4, 60.0) * log_noise(random, rows, 0.02)}


def error_rate(random: np.random.Generator) -> Columns:
    """Share of 64 samples that were wrong: counts, down to none."""
    rows = 1_500
    return {LOSS: random.binomial(64, power_law(rows, 0.9, 0.03, 60.0)) / 64.0}


def count_of_errors(random: np.random.Generator) -> Columns:
    """Whole numbers, many of them zero in the end."""
    rows = 1_500
    return {LOSS: random.poisson(power_law(rows, 60.0, 0.8, 40.0)).astype(np.float64)}
