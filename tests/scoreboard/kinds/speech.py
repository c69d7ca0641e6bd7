"""Speech: synthesis, recognition with CTC, and recognition sorted by length within an epoch."""

from __future__ import annotations

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.faults import Columns
from tests.scoreboard.kinds.curves import correlated, exponential, log_noise, phase, power_law


def synthesis(random: np.random.Generator) -> Columns:
    """Mel loss that falls smoothly, and once more when attention aligns; heavy-tailed gradient norm."""
    rows = 2_500
    aligned = 0.12 / (1.0 + np.exp(-(np.arange(rows) - 900) / 20.0))
    loss = (power_law(rows, 3.0, 0.32, 40.0) - aligned) * log_noise(random, rows, 0.04)
    return {LOSS: loss, GRAD_NORM: 0.8 * np.exp(0.4 * random.standard_t(4, rows))}


def ctc(random: np.random.Generator) -> Columns:
    """Starts in the hundreds, rests where only blanks are said, then learns."""
    rows = 2_000
    blank = exponential(rows, 400.0, 2.9, 12.0)
    learns = 2.4 / (1.0 + np.exp(-(np.arange(rows) - 700) / 120.0))
    return {LOSS: (blank - learns) * log_noise(random, rows, 0.05), GRAD_NORM: 4.0 * log_noise(random, rows, 0.5)}


def sorted_by_length(random: np.random.Generator) -> Columns:
    """Utterances from short to long in every epoch: the loss of a batch grows with its length and falls back."""
    rows = 2_400
    length = 0.4 + 1.2 * phase(rows, 300)
    return {LOSS: power_law(rows, 120.0, 12.0, 100.0) * length * log_noise(random, rows, 0.06)}


def transducer(random: np.random.Generator) -> Columns:
    """Correlated noise of large batches, one record in a hundred steps."""
    rows = 900
    return {LOSS: power_law(rows, 9.0, 0.25, 15.0, 0.9) * np.exp(correlated(random, rows, 0.5, 0.07))}
