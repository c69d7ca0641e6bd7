"""Logistic regression with a ridge penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.scoreboard.series import Array


@dataclass(frozen=True)
class Logistic:
    """P = σ(bias + weights · (x − center) / spread)."""

    bias: float
    weights: Array
    center: Array
    spread: Array

    def logits(self, rows: Array) -> Array:
        return np.asarray(self.bias + (rows - self.center) / self.spread @ self.weights)


def fit(rows: Array, truth: Array, importance: Array, penalty: float = 1.0) -> Logistic:
    """Minimises the weighted cross-entropy plus ``penalty`` / 2 times the squared weights of standardised columns.

    >>> rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = fit(rows, np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), penalty=0.1)
    >>> model.logits(np.array([[0.0], [3.0]])).round(1).tolist()
    [-3.7, 3.7]
    """
    from scipy.optimize import minimize

    center, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
    scaled = (rows - center) / spread

    def loss(parameters: Array) -> tuple[float, Array]:
        bias, weights = parameters[0], parameters[1:]
        logits = bias + scaled @ weights
        error = importance * (1.0 / (1.0 + np.exp(-logits)) - truth)
        value = float(importance @ (np.logaddexp(0.0, logits) - truth * logits)) + 0.5 * penalty * float(
            weights @ weights
        )
        return value, np.concatenate([[error.sum()], scaled.T @ error + penalty * weights])

    found = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B")
    return Logistic(float(found.x[0]), found.x[1:], center, spread)
