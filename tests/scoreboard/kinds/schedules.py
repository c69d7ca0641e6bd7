"""Losses shaped by their schedule: restarts of the learning rate, new data, epochs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS
from tests.scoreboard.faults import Columns
from tests.scoreboard.kinds.curves import exponential, log_noise, phase, power_law, relaxing_steps


def warm_restarts(random: np.random.Generator) -> Columns:
    """Cosine cycles of 200, 400, 800 … rows (Loshchilov and Hutter 2017): the loss jumps back with the rate."""
    edges = [0, 200, 600, 1_400, 3_000]
    rate = np.concatenate([0.5 + 0.5 * np.cos(np.pi * np.arange(b - a) / (b - a)) for a, b in pairwise(edges)])
    loss = power_law(rate.size, 2.3, 0.35, 100.0) * (1.0 + 0.35 * rate)
    return {LOSS: loss * log_noise(random, rate.size, 0.04), LEARNING_RATE: 0.1 * rate}


def curriculum(random: np.random.Generator) -> Columns:
    """Three stages of harder data: up by up to a third at once, down again slowly."""
    rows = 2_400
    stages = relaxing_steps(rows, [600, 1_200, 1_800], [0.7, 0.5, 0.4], 250.0)
    loss = (power_law(rows, 6.0, 1.6, 60.0) + stages) * log_noise(random, rows, 0.03)
    return {LOSS: loss, GRAD_NORM: 0.6 * log_noise(random, rows, 0.25)}


def running_mean(random: np.random.Generator) -> Columns:
    """The mean since the start of the epoch, which starts anew with one batch: noisy first rows, smooth last ones."""
    rows, period = 2_000, 200
    raw = power_law(rows, 2.3, 0.3, 150.0) * log_noise(random, rows, 0.3)
    sums = np.concatenate([np.cumsum(raw[start : start + period]) for start in range(0, rows, period)])
    return {LOSS: sums / (np.arange(rows) % period + 1.0)}


def memorising(random: np.random.Generator) -> Columns:
    """Fine-tuning on few data: a step down at each epoch's edge, to almost nothing in the end."""
    rows = 900
    stairs = np.repeat([1.3, 0.9, 0.45, 0.18, 0.07, 0.03], 150)
    loss = stairs * log_noise(random, rows, 0.12)
    return {LOSS: loss, GRAD_NORM: 1.2 * np.sqrt(stairs) * log_noise(random, rows, 0.3)}


def short_finetune(random: np.random.Generator) -> Columns:
    """Few rows, ten steps apart, falling from the first row."""
    rows = 150
    return {LOSS: exponential(rows, 2.4, 1.1, 15.0) * log_noise(random, rows, 0.05),
            GRAD_NORM: exponential(rows, 6.0, 0.9, 8.0) * log_noise(random, rows, 0.3)}  # fmt: skip


def two_tasks(random: np.random.Generator) -> Columns:
    """Batches of two tasks in a fixed order, one ten times as hard as the other."""
    rows = 2_000
    task = np.where(phase(rows, 4) < 0.7, 1.0, 10.0)
    return {LOSS: power_law(rows, 1.0, 0.2, 60.0) * task * log_noise(random, rows, 0.08)}


def mixture(random: np.random.Generator) -> Columns:
    """Batches of a rare, hard source among common ones."""
    rows = 2_500
    hard = np.where(random.random(rows) < 0.04, random.uniform(1.5, 2.5, rows), 1.0)
    return {
        LOSS: power_law(rows, 10.0, 1.8, 40.0) * hard * log_noise(random, rows, 0.04),
        GRAD_NORM: 0.5 * hard * log_noise(random, rows, 0.2),
    }
