"""AXLearn's ``skip_and_clip_by_global_norm`` with ``drop_norm_by_grad_norm_ema`` (``axlearn/common/optimizers.py``).

A step is skipped where the gradient norm is not finite or above 20 times its moving average (decay .99), which skipped
steps do not move. Without a gradient norm it sees nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.scoreboard.rules.streaming import StreamingRule, Verdict


@dataclass
class AxLearn:
    multiplier: float = 20.0
    decay: float = 0.99
    average: float = math.nan

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if grad_norm is None:
            return None
        if not math.isfinite(grad_norm):
            return Verdict("nan", "skip_range")
        if grad_norm > self.multiplier * self.average:
            return Verdict("grad_explosion", "skip_range")
        known = not math.isnan(self.average)
        self.average = self.decay * self.average + (1.0 - self.decay) * grad_norm if known else grad_norm
        return None


RULE = StreamingRule("AXLearn, gradient 20 x average", AxLearn)
