"""What could be seen at all: likelihood-ratio tests that know the noise and the height of the jump.

Against "nothing happened" stands "the newest k values were multiplied by ``times``", k = 1 … ``longest``; the
statistic at a value is the largest of the k log likelihood ratios (Neyman and Pearson 1933 for each k).
"""

from __future__ import annotations

import math

import numpy as np

from tests.scoreboard.noise.multiplicative import Bursts, LogNormal, LogWander
from tests.scoreboard.series import Array

Known = LogNormal | LogWander | Bursts


def statistics_of(noise: Known, factors: Array, times: float, longest: int) -> Array:
    """One statistic a value; the first ``longest`` are -inf."""
    logs, shift = np.log(factors), math.log(times)
    if isinstance(noise, Bursts):
        return _of_bursts(noise, logs, shift, longest)
    if isinstance(noise, LogWander):
        return _of_gaussian(logs, shift, longest, noise.correlation, noise.innovation_sd)
    return _of_gaussian(logs, shift, longest, 0.0, noise.log_sd)


def _of_gaussian(logs: Array, shift: float, longest: int, correlation: float, sd: float) -> Array:
    """AR(1): the first jumped value is ``shift`` above its prediction, each later one ``shift`` (1 − correlation)."""
    innovations = logs.copy()
    innovations[1:] -= correlation * logs[:-1]
    first, later = (_gain(innovations, mean, sd) for mean in (shift, shift * (1.0 - correlation)))
    best = np.full(logs.size, -math.inf)
    tail = np.zeros(logs.size)
    for k in range(1, longest + 1):
        best[longest:] = np.maximum(best[longest:], (tail + _delayed(first, k - 1))[longest:])
        tail += _delayed(later, k - 1)
    return best


def _gain(values: Array, mean: float, sd: float) -> Array:
    """log N(value; mean, sd) − log N(value; 0, sd)."""
    return np.asarray(mean * (2.0 * values - mean) / (2.0 * sd * sd))


def _delayed(values: Array, lag: int) -> Array:
    return np.concatenate([np.zeros(lag), values[: values.size - lag]])


def _of_bursts(noise: Bursts, logs: Array, shift: float, longest: int) -> Array:
    """A two-state hidden Markov model, filtered forwards from every possible onset at once.

    Element i of ``states``, ``jumped`` and ``ordinary`` is of the jump that begins right after value i.
    """
    leave_calm, leave_burst = 1.0 / noise.mean_calm, 1.0 / noise.mean_burst
    sds = np.array([noise.calm_sd, noise.burst_sd])
    moves = np.array([[1.0 - leave_calm, leave_calm], [leave_burst, 1.0 - leave_burst]])
    filtered, evidence = _filter(logs, sds, moves)
    best = np.full(logs.size, -math.inf)
    states, jumped, ordinary = filtered, np.zeros(logs.size), np.zeros(logs.size)
    for k in range(1, longest + 1):
        states = states[:-1]
        weights = (states @ moves) * _density(logs[k:, None] - shift, sds)
        total = weights.sum(axis=1)
        jumped = jumped[:-1] + np.log(total)
        ordinary = ordinary[:-1] + evidence[k:]
        states = weights / total[:, None]
        best[k:] = np.maximum(best[k:], jumped - ordinary)
    best[:longest] = -math.inf
    return best


def _filter(logs: Array, sds: Array, moves: Array) -> tuple[Array, Array]:
    """P(state | values so far), and log p(value | values before)."""
    densities = _density(logs[:, None], sds).tolist()
    (_, burst), (calm, stay_burst) = moves.tolist()
    filtered, evidence = np.empty((logs.size, 2)), np.empty(logs.size)
    p_burst = burst / (burst + calm)
    for index, (if_calm, if_burst) in enumerate(densities):
        expected = (1.0 - p_burst) * burst + p_burst * stay_burst
        weighted_calm, weighted_burst = (1.0 - expected) * if_calm, expected * if_burst
        total = weighted_calm + weighted_burst
        p_burst = weighted_burst / total
        filtered[index] = 1.0 - p_burst, p_burst
        evidence[index] = math.log(total)
    return filtered, evidence


def _density(values: Array, sds: Array) -> Array:
    """Normal densities, kept above zero so that a logarithm of them exists."""
    density = np.exp(-0.5 * (values / sds) ** 2) / (sds * math.sqrt(2.0 * math.pi))
    return np.asarray(np.maximum(density, 1e-300))
