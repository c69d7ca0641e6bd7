"""LLM Foundry's ``KillLossSpike`` with its defaults (``llmfoundry/callbacks/kill_loss_spike_callback.py``).

Five losses in a row of at least twice the mean of the last 100, or half of those 100 above 10, end the run.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

WINDOW = 100


@dataclass
class KillLossSpike:
    patience: int = 4
    multiplier: float = 2.0
    loss_cap: float = 10.0
    losses: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))
    is_high: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    num_seen: int = 0
    num_outliers: int = 0

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if loss is None:
            return None
        verdict = self._judge(loss) if self.losses.is_full else None
        self.losses.push(loss)
        self.is_high.append(loss > self.loss_cap)
        self.num_seen += 1
        return verdict

    def _judge(self, loss: float) -> Verdict | None:
        is_outlier = loss >= self.multiplier * self.losses.mean()
        self.num_outliers = self.num_outliers + 1 if is_outlier else 0
        if self.num_outliers > self.patience:
            return Verdict("loss_spike", "stop")
        if self.num_seen >= 2 * WINDOW and sum(self.is_high) >= WINDOW / 2:
            return Verdict("divergence", "stop")
        return None


RULE = StreamingRule("LLM Foundry KillLossSpike", KillLossSpike)
