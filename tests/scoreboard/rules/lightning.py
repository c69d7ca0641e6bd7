"""Lightning's ``SpikeDetection`` with its defaults (``lightning.fabric.utilities.spike``, mode ``min``).

A loss that is worse than the last accepted one and at least ``rtol`` times the running mean of 10 away from that mean
is a spike, as is one that is not finite. The batch is excluded and training starts again from the checkpoint.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tests.scoreboard.rules.streaming import StreamingRule, Verdict


@dataclass
class Lightning:
    window: int = 10
    warmup: int = 1
    rtol: float = 2.0
    last: float = math.inf
    num_seen: int = 0
    accepted: deque[float] = field(default_factory=deque)

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if loss is None:
            return None
        self.num_seen += 1
        if self.num_seen > self.warmup and self._is_spike(loss):
            return Verdict("loss_spike" if math.isfinite(loss) else "nan", "rollback")
        self.last = loss
        self.accepted.append(loss)
        if len(self.accepted) > self.window:
            self.accepted.popleft()
        return None

    def _is_spike(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return True
        if loss < self.last or not self.accepted:
            return False
        mean = sum(self.accepted) / len(self.accepted)
        return abs(loss - mean) >= abs(self.rtol * mean)


RULE = StreamingRule("Lightning SpikeDetection", Lightning)
