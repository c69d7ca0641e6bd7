"""Qwen's spike measure: a loss of .1 above the median of 201 steps (arXiv 2608.30320). Nothing is done about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from holter.pipeline.core.stats.rolling import RollingMedian
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

WINDOW = 201


@dataclass
class QwenSpike:
    above: float = 0.1
    losses: RollingMedian = field(default_factory=lambda: RollingMedian(WINDOW))
    num_seen: int = 0

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if loss is None or not math.isfinite(loss):
            return None
        spikes = len(self.losses) == WINDOW and loss > self.losses.median() + self.above
        self.num_seen += 1
        self.losses.push(self.num_seen, loss)
        return Verdict("loss_spike", "none") if spikes else None


RULE = StreamingRule("Qwen, median of 201 + .1", QwenSpike)
