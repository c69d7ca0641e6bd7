"""Generative models whose loss may rise, oscillate or be negative while all is well."""

from __future__ import annotations

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.faults import Columns
from tests.scoreboard.kinds.curves import correlated, log_noise, phase, power_law


def annealed_autoencoder(random: np.random.Generator) -> Columns:
    """The weight of the divergence rises from 0 to 1 in each of four cycles, and the loss with it."""
    rows = 2_000
    kl_weight = np.minimum(1.0, 2.0 * phase(rows, 500))
    loss = power_law(rows, 540.0, 85.0, 30.0) + 22.0 * kl_weight
    return {LOSS: loss * log_noise(random, rows, 0.02)}


def adversarial_generator(random: np.random.Generator) -> Columns:
    """The generator's loss swings slowly around a growing mean."""
    rows = 2_400
    swing = 0.35 * np.sin(np.cumsum(0.05 * log_noise(random, rows, 0.5)))
    mean = 1.0 + 1.5 * np.arange(rows) / rows
    return {LOSS: mean * (1.0 + swing + correlated(random, rows, 0.6, 0.15))}


def critic(random: np.random.Generator) -> Columns:
    """A Wasserstein critic: from −30 towards zero, crossing it often."""
    rows = 2_000
    return {LOSS: -power_law(rows, 30.0, 0.5, 60.0) + 0.8 * random.standard_t(5, rows)}


def flow(random: np.random.Generator) -> Columns:
    """Negative log-likelihood of a density: from 4 through zero to −5."""
    rows = 1_800
    return {LOSS: power_law(rows, 4.0, -6.0, 300.0) + 0.12 * random.standard_normal(rows),
            GRAD_NORM: 3.0 * log_noise(random, rows, 0.35)}  # fmt: skip
