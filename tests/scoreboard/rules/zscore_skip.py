"""llm.c's outlier detector: the update is skipped where z > 7 over the last 128 values, of the loss or the norm.

``llmc/outlier_detector.h`` (``-sl 7 -sg 7``): the window holds the current value and is not used before it is full.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

WINDOW = 128


@dataclass
class ZScoreSkip:
    threshold: float = 7.0
    losses: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))
    norms: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        spikes = loss is not None and self._exceeds(self.losses, loss)
        explodes = grad_norm is not None and self._exceeds(self.norms, grad_norm)
        if spikes or explodes:
            return Verdict("loss_spike" if spikes else "grad_explosion", "skip_range")
        return None

    def _exceeds(self, window: RollingMoments, value: float) -> bool:
        window.push(value)
        return window.is_full and value - window.mean() > self.threshold * window.sd() > 0.0


RULE = StreamingRule("llm.c, z > 7 over 128", ZScoreSkip)
