"""W&B Automations' z-score event with its defaults (``wandb.automations.MetricZScoreFilter``).

|z| > 3 over a window of 30, in either direction; it notifies and does nothing to the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.streaming import StreamingRule, Verdict

WINDOW = 30


@dataclass
class WandbZScore:
    threshold: float = 3.0
    losses: RollingMoments = field(default_factory=lambda: RollingMoments(WINDOW))

    def update(self, loss: float | None, grad_norm: float | None) -> Verdict | None:
        if loss is None:
            return None
        is_far = self.losses.is_full and abs(loss - self.losses.mean()) > self.threshold * self.losses.sd()
        self.losses.push(loss)
        return Verdict("loss_spike", "none") if is_far else None


RULE = StreamingRule("W&B z-score, 3 over 30", WandbZScore)
