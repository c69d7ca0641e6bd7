"""Whether the residual stream begins large enough (Spike No More, Takase et al. 2025, 2312.16903)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, Severity, fine

NAME = "embedding scale"
_LEAST_SIGMA = 0.1
SMALL_STRETCH = 2.0
"""A layer that stretches by less than this does little harm as it is."""
_BUILD = "multiply the embeddings by √d, or put a LayerNorm behind them (σ_x near 1)"


def check(examined: Examined) -> Iterator[Finding]:
    """The paper's large shortcut: σ_x near 1 where the first layer takes it. A normed layer's Jacobian grows with
    1 / σ_x, and at the usual σ of embeddings the first ones multiply the gradient."""
    first = examined.probe.layers[0]
    what = f"σ_x of what enters the first of {len(examined.probe.layers)} layers is {first.sigma_x:.4f}"
    if not math.isnan(first.jacobian):
        what += f"; that layer stretches by {first.jacobian:.1f} at most"
    if not math.isnan(first.bound):
        what += f" (bound {first.bound:.1f})"
    if first.sigma_x >= _LEAST_SIGMA or not first.is_pre_norm:
        yield fine(NAME, what, first.sigma_x, _LEAST_SIGMA)
        return
    why = (
        "gradients grow by 1 / σ_x through a pre-norm layer; in the paper such models spike, and diverge at high rates"
    )
    severity: Severity = "note" if first.jacobian < SMALL_STRETCH else "warning"
    yield Finding(NAME, severity, what, first.sigma_x, _LEAST_SIGMA, why, _BUILD)
