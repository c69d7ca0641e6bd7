"""ZClip (Kumar et al. 2025, arXiv 2504.02507): the gradient is clipped where its norm is 2.5 sd above its average.

Averages decay by .97 after a warm-up of 25 norms; a clipped norm μ + z*²/z σ moves them in place of the real one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean, pvariance

from tests.scoreboard.rules.streaming import StreamingRule, Verdict

EPSILON = 1e-6


@dataclass
class ZClip:
    decay: float = 0.97
    threshold: float = 2.5
    num_warmup: int = 25
    warmup: list[float] = field(default_factory=list)
    mean: float = math.nan
    variance: float = math.nan

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if grad_norm is None or not math.isfinite(grad_norm):
            return None
        if len(self.warmup) < self.num_warmup:
            self.warmup.append(grad_norm)
            self.mean, self.variance = fmean(self.warmup), pvariance(self.warmup)
            return None
        sd = math.sqrt(self.variance)
        z = (grad_norm - self.mean) / (sd + EPSILON)
        if z <= self.threshold:
            self._follow(grad_norm)
            return None
        self._follow(self.mean + self.threshold**2 / z * sd)
        return Verdict("grad_explosion", "clip")

    def _follow(self, norm: float) -> None:
        self.mean = self.decay * self.mean + (1.0 - self.decay) * norm
        self.variance = self.decay * self.variance + (1.0 - self.decay) * (norm - self.mean) ** 2


RULE = StreamingRule("ZClip, 2.5 sd", ZClip)
