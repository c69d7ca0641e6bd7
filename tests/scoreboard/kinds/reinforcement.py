"""Reinforcement learning: returns, temporal differences, and signed policy losses."""

from __future__ import annotations

import numpy as np

from holter.schemas.telemetry import LOSS
from tests.scoreboard.faults import Columns
from tests.scoreboard.kinds.curves import correlated, log_noise, phase


def negative_return(random: np.random.Generator) -> Columns:
    """Minus the episode's return: from 0 down to −300, with failures all along."""
    rows = 1_500
    mean = 300.0 / (1.0 + np.exp(-(np.arange(rows) - 500) / 120.0))
    share = np.where(random.random(rows) < 0.08, random.uniform(0.0, 0.6, rows), random.beta(20.0, 3.0, rows))
    return {LOSS: -mean * share + 2.0 * random.standard_normal(rows)}


def temporal_difference(random: np.random.Generator) -> Columns:
    """Grows with the returns, heavy-tailed, and jumps a little whenever the target network is renewed."""
    rows = 3_000
    growth = 0.05 * np.exp(3.0 * np.minimum(1.0, np.arange(rows) / 2_000.0))
    target = 1.0 + 0.6 * np.exp(-phase(rows, 250) * 250 / 20.0)
    return {LOSS: growth * target * np.exp(0.35 * random.standard_t(5, rows))}


def signed_policy(random: np.random.Generator) -> Columns:
    """A clipped surrogate: small numbers around zero."""
    rows = 2_000
    return {LOSS: -0.004 + 0.012 * random.standard_t(6, rows)}


def value(random: np.random.Generator) -> Columns:
    """A value loss that wanders over a decade, one record a rollout."""
    rows = 1_000
    wander = np.cumsum(0.03 * random.standard_normal(rows))
    return {LOSS: 5.0 * np.exp(wander - wander.mean() + correlated(random, rows, 0.8, 0.3))}


def preference(random: np.random.Generator) -> Columns:
    """Direct preference optimisation: from ln 2 down, wide noise, fewer rows than one would like."""
    rows = 400
    mean = 0.25 + 0.443 * np.exp(-np.arange(rows) / 120.0)
    return {LOSS: mean * log_noise(random, rows, 0.25)}
