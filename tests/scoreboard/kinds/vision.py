"""Vision: segmentation, detection, radiance fields, contrastive and federated training."""

from __future__ import annotations

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.faults import Columns
from tests.scoreboard.kinds.curves import log_noise, phase, power_law, relaxing_steps


def segmentation(random: np.random.Generator) -> Columns:
    """Dice loss in [0, 1] of small batches: wide, skewed noise, some batches without any object."""
    rows = 2_000
    mean = power_law(rows, 0.9, 0.12, 80.0)
    loss = random.beta(12.0 * mean, 12.0 * (1.0 - mean))
    return {LOSS: np.where(random.random(rows) < 0.02, random.uniform(0.7, 1.0, rows), loss)}


def detection(random: np.random.Generator) -> Columns:
    """Sum of losses over images of changing size; a fall when the strong augmentation is switched off."""
    rows = 1_800
    curve = power_law(rows, 14.0, 4.2, 60.0)
    curve[1_500:] *= 0.75
    return {LOSS: curve * random.choice([0.85, 1.0, 1.1, 1.2], rows) * log_noise(random, rows, 0.08)}


def radiance_field(random: np.random.Generator) -> Columns:
    """Squared error over three decades; the grid is made finer twice, and the loss jumps and heals each time."""
    rows = 1_500
    finer = relaxing_steps(rows, [400, 800], [0.006, 0.0025], 15.0)
    return {LOSS: (power_law(rows, 0.3, 0.0004, 5.0, 1.1) + finer) * log_noise(random, rows, 0.08)}


def contrastive(random: np.random.Generator) -> Columns:
    """From ln(batch size) down; the batch doubles twice, and with it the number of negatives."""
    rows = 1_600
    curve = power_law(rows, 5.5, 0.9, 100.0)
    curve[600:] += 0.25
    curve[1_100:] += 0.25
    return {LOSS: curve * log_noise(random, rows, 0.03), GRAD_NORM: 1.5 * log_noise(random, rows, 0.2)}


def federated(random: np.random.Generator) -> Columns:
    """Clients take turns, each with data of its own difficulty."""
    rows = 1_600
    clients = random.uniform(0.6, 1.6, 8)
    turn = clients[(phase(rows, 160) * 8).astype(np.int64)]
    return {LOSS: power_law(rows, 2.3, 0.4, 150.0) * turn * log_noise(random, rows, 0.06)}


def denoising(random: np.random.Generator) -> Columns:
    """Diffusion: the loss of a batch depends on the noise levels drawn for it."""
    rows = 2_400
    return {
        LOSS: power_law(rows, 1.0, 0.03, 20.0) * log_noise(random, rows, 0.5),
        GRAD_NORM: log_noise(random, rows, 0.6),
    }
