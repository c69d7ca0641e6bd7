"""How good probabilities are: the Brier score and the reliability table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holter.pipeline.fit.design import Floats

EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class Reliability(NamedTuple):
    """Forecasts between ``low`` and ``high``.

    Attributes:
        num_incidents: sum of the weights of the forecasts: an incident's own sum to 1.
        forecast: their mean.
        healed: share that healed.
    """

    low: float
    high: float
    num_incidents: float
    forecast: float
    healed: float


def brier_score(forecast: Floats, outcome: Floats, weight: Floats) -> float:
    """Weighted mean squared distance of forecast and outcome (Brier 1950): 0 is perfect, .25 is always saying .5.

    >>> brier_score(np.array([1.0, 0.5]), np.array([1.0, 0.0]), np.ones(2))
    0.125
    """
    return float(np.average((forecast - outcome) ** 2, weights=weight))


def base_rate(outcome: Floats, weight: Floats) -> float:
    return float(np.average(outcome, weights=weight))


def reliability_table(forecast: Floats, outcome: Floats, weight: Floats) -> list[Reliability]:
    """What was said against what happened, in the bins of :data:`EDGES` that have forecasts."""
    bins = np.clip(np.searchsorted(EDGES, forecast, side="right") - 1, 0, len(EDGES) - 2)
    rows = []
    for number in np.unique(bins):
        inside = bins == number
        share = weight[inside]
        rows.append(
            Reliability(
                EDGES[number],
                EDGES[number + 1],
                float(share.sum()),
                float(np.average(forecast[inside], weights=share)),
                float(np.average(outcome[inside], weights=share)),
            )
        )
    return rows
