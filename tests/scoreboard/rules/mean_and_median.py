"""Loss above the mean by some standard deviations, gradient norm above a multiple of its median.

The two rules that design documents of trainers usually state: 3 to 5 standard deviations of a window of 100, and 5 to
20 times the median. An explosion resets the moments, a spike goes back to a checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from holter.pipeline.core.stats.ordered import median
from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

MIN_VALUES = 20


@dataclass
class MeanAndMedian:
    num_sds: float = 5.0
    grad_times: float = 5.0
    window: int = 100
    losses: RollingMoments = field(init=False)
    norms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.losses = RollingMoments(self.window)

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        explodes = grad_norm is not None and self._explodes(grad_norm)
        spikes = loss is not None and self._spikes(loss)
        if not (spikes or explodes):
            return None
        return Verdict("loss_spike", "rollback") if spikes else Verdict("grad_explosion", "momentum_reset")

    def _spikes(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return True
        enough = len(self.losses) >= MIN_VALUES
        spikes = enough and loss - self.losses.mean() > self.num_sds * self.losses.sd()
        self.losses.push(loss)
        return spikes

    def _explodes(self, grad_norm: float) -> bool:
        if not math.isfinite(grad_norm):
            return True
        enough = len(self.norms) >= MIN_VALUES
        explodes = enough and grad_norm > self.grad_times * median(sorted(self.norms))
        self.norms.append(grad_norm)
        del self.norms[: -self.window]
        return explodes


FIVE = StreamingRule("mean + 5 sd, gradient 5 x median", MeanAndMedian)
THREE = StreamingRule("mean + 3 sd, gradient 5 x median", lambda: MeanAndMedian(num_sds=3.0))
