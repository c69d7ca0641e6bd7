"""A fault to try things on: for five steps the learning rate is far too high, inside the optimizer's own step."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

NUM_STEPS = 5
FACTOR = 200.0


class LrBurst:
    """Strikes from the step ``at`` on, counted from 1; no scheduler and no logger sees it."""

    def __init__(self, at: int, factor: float = FACTOR) -> None:
        self._at, self._factor = at, factor
        self._num_done = 0

    def attach(self, optimizer: Optimizer) -> None:
        optimizer.register_step_pre_hook(self._heat)
        optimizer.register_step_post_hook(self._cool)

    def _heat(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._scale(optimizer, self._factor)

    def _cool(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._scale(optimizer, 1.0 / self._factor)
        self._num_done += 1

    def _scale(self, optimizer: Optimizer, factor: float) -> None:
        if self._at <= self._num_done + 1 < self._at + NUM_STEPS:
            for group in optimizer.param_groups:
                group["lr"] *= factor
