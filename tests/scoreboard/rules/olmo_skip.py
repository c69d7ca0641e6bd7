"""OLMo-core's ``SkipStepOptimizer``: the step is skipped unless loss and gradient norm are within 6 sd of the mean.

Mean and sd are those of the last 128 values without the current one, from 64 values on. A value that is not finite
compares false, so the step is skipped, and so are the next 128: it stays in the window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

WINDOW = 128


@dataclass
class OlmoSkip:
    num_sds: float = 6.0
    losses: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))
    norms: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        loss_is_fine = loss is None or self._is_within(self.losses, loss)
        norm_is_fine = grad_norm is None or self._is_within(self.norms, grad_norm)
        if loss_is_fine and norm_is_fine:
            return None
        return Verdict("grad_explosion" if loss_is_fine else "loss_spike", "skip_range")

    def _is_within(self, window: RollingMoments, value: float) -> bool:
        is_within = len(window) < WINDOW // 2 or value - window.mean() <= self.num_sds * window.sd()
        window.push(value)
        return is_within


RULE = StreamingRule("OLMo-core skip step, 6 sd over 128", OlmoSkip)
