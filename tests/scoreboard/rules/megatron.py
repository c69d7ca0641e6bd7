"""Megatron-LM's loss checks with their defaults (``megatron/core/rerun_state_machine.py``).

A loss of at least 10 times the largest of the first 100 is reported as spiky, and the run goes on; one that is not
finite ends it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.scoreboard.rules.streaming import StreamingRule, Verdict


@dataclass
class Megatron:
    threshold: float = 10.0
    num_samples: int = 100
    num_seen: int = 0
    largest: float = 0.0

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if loss is None:
            return None
        if not math.isfinite(loss):
            return Verdict("nan", "stop")
        if self.num_seen < self.num_samples:
            self.num_seen += 1
            self.largest = max(self.largest, abs(loss))
            return None
        return Verdict("loss_spike", "none") if abs(loss) >= self.threshold * self.largest else None


RULE = StreamingRule("Megatron-LM, 10 x first 100", Megatron)
