"""Logistic regression that stays near coefficients which are known already."""

from __future__ import annotations

import numpy as np

from holter.pipeline.fit.design import Floats


def logistic(logit: Floats) -> Floats:
    """1 / (1 + e^-x), without overflow.

    >>> logistic(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    probability: Floats = 0.5 * (1.0 + np.tanh(0.5 * logit))
    return probability


def fit_logistic(terms: Floats, outcome: Floats, weight: Floats, prior: Floats, ridge: float) -> Floats:
    """The coefficients that minimise the weighted log loss plus ``ridge``/2 times their squared distance to ``prior``.

    That is the mode under independent normal priors of variance 1/ridge around ``prior`` (Hoerl and Kennard 1970;
    le Cessie and van Houwelingen 1992). The problem is convex, and strictly so for ridge > 0.

    Args:
        terms: (records, terms); a constant term is one of them, and is held back like the others.
        outcome: 1.0 or 0.0, (records,).

    >>> terms = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> near = fit_logistic(terms, np.array([0.0, 1.0]), np.ones(2), np.array([0.5, 2.0]), ridge=1e6)
    >>> near.round(3).tolist()
    [0.5, 2.0]
    """

    # Imported here: it takes half a second, and every other command would wait for it.
    from scipy.optimize import minimize

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        logit = terms @ coefficients
        away = coefficients - prior
        # log(1 + e^x) - y x, stable for any x
        value = float(weight @ (np.logaddexp(0.0, logit) - outcome * logit) + 0.5 * ridge * away @ away)
        return value, terms.T @ (weight * (logistic(logit) - outcome)) + ridge * away

    def curvature(coefficients: Floats) -> Floats:
        said = logistic(terms @ coefficients)
        bent: Floats = terms.T @ ((weight * said * (1.0 - said))[:, None] * terms)
        return bent + ridge * np.eye(len(prior))

    found = minimize(loss, prior, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-6})
    return np.asarray(found.x, dtype=np.float64)
