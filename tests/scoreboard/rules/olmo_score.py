"""OLMo 2's spike score: values at least 7 sd from the mean of the last 1,000 (arXiv 2501.00656, section 3).

A measure, not a cure: nothing is done about a spike. Both the loss and the gradient norm are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

WINDOW = 1_000
MIN_VALUES = 100


@dataclass
class OlmoScore:
    num_sds: float = 7.0
    losses: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))
    norms: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        spikes = loss is not None and self._is_far(self.losses, loss)
        explodes = grad_norm is not None and self._is_far(self.norms, grad_norm)
        if spikes or explodes:
            return Verdict("loss_spike" if spikes else "grad_explosion", "none")
        return None

    def _is_far(self, window: RollingMoments, value: float) -> bool:
        if not math.isfinite(value):
            return False
        is_far = len(window) >= MIN_VALUES and abs(value - window.mean()) >= self.num_sds * window.sd()
        window.push(value)
        return is_far


RULE = StreamingRule("OLMo 2 spike score, 7 sd over 1,000", OlmoScore)
