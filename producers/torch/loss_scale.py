"""A loss scale is not to blame for gradients that overflow without one, so it does not have to pay for them either."""

from __future__ import annotations

from typing import Any

import torch


class LossScaleFloor:
    """Keeps a gradient scaler's scale from falling below 1, and gives it back once the overflow ends.

    A gradient that is not finite at a scale of 1 is not finite by itself: halving goes on for as long as such batches
    come, until ordinary gradients vanish (``torch.amp.GradScaler.update`` warns of scales below 1 and has no floor).
    The first step with finite gradients after that gets the scale of before the overflow. Shorter falls are the
    scaler's business. Nothing waits for the device.

    Args:
        scaler: a ``torch.amp.GradScaler``; one that began below 1 has its own beginning as the floor.
    """

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler
        self._last: torch.Tensor | None = None

    def settle(self) -> None:
        """After every ``scaler.update()``."""
        now: torch.Tensor | None = getattr(self._scaler, "_scale", None)
        if now is None:
            return
        if self._last is None:
            self._last, self._before = now.clone(), now.clone()
            self._is_falling = self._is_at_floor = torch.zeros_like(now, dtype=torch.bool)
            return
        falls = now < self._last
        self._before = torch.where(falls & ~self._is_falling, self._last, self._before)
        floor = self._before.clamp(max=1.0)
        is_below = falls & (now < floor)
        settled = torch.where(is_below, floor, torch.where(~falls & self._is_at_floor, self._before, now))
        self._is_at_floor = falls & (self._is_at_floor | is_below)
        self._is_falling, self._last = falls, settled
        now.copy_(settled)

    def restart(self) -> None:
        """After the scaler was restored."""
        self._last = None
