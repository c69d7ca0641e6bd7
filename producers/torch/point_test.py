"""Which of many norms is far above its own recent ones: one test for all tensors at once, on their device.

On the CPU and on a device it is the same rule: a robust score of the logs (Hampel's identifier), where a norm that is
far out is learned as the limit it broke, so that it cannot lift its own reference, and what is no norm is not learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

_NORMAL_MAD = 1.4826


@dataclass(frozen=True)
class PointSettings:
    score: float = 6.0
    """In robust deviations of the logs."""
    ratio: float = 5.0
    """And this multiple of the median."""
    window: int = 64
    min_values: int = 16
    """Nothing is judged with fewer."""
    min_scale: float = 0.05
    """A deviation of the logs below this counts as this: norms that hardly vary are no reason for alarm."""

    def __post_init__(self) -> None:
        if not (self.score > 0 and self.ratio >= 1 and 2 <= self.min_values <= self.window and self.min_scale > 0):
            raise ValueError("a point test needs score > 0, ratio ≥ 1, 2 ≤ min_values ≤ window and min_scale > 0")


class Judged(NamedTuple):
    """Shape (num_norms,). A score is 0 where nothing is judged: few values yet, a zero, or no number."""

    scores: torch.Tensor
    is_far: torch.Tensor


class PointTest:
    """Keeps the newest norms of every tensor in a ring of shape (window, num_norms); NaN where one has none.

    >>> test = PointTest(1, torch.device("cpu"))
    >>> for norm in (1.0, 1.1, 0.9, 1.0) * 5:
    ...     _ = test.judge(torch.tensor([norm]))
    >>> test.judge(torch.tensor([1.2])).is_far.item(), test.judge(torch.tensor([30.0])).is_far.item()
    (False, True)
    """

    def __init__(self, num_norms: int, device: torch.device, settings: PointSettings | None = None) -> None:
        self._settings = settings or PointSettings()
        self._ring = torch.full((self._settings.window, num_norms), math.nan, device=device)
        self._row = 0

    @torch.no_grad()
    def judge(self, norms: torch.Tensor) -> Judged:
        """Takes the norms of a step. Nothing here waits for the device."""
        settings, ring = self._settings, self._ring
        logs = torch.where(norms > 0, norms, math.nan).log()
        num_values = (~ring.isnan()).sum(0)
        middle = _median(ring, num_values)
        deviation = _median((ring - middle).abs(), num_values)
        scale = (_NORMAL_MAD * deviation).clamp(min=settings.min_scale)
        gap = logs - middle
        is_judged = num_values >= settings.min_values
        scores = torch.where(is_judged & logs.isfinite(), gap / scale, 0.0)
        is_far = (scores > settings.score) & (gap >= math.log(settings.ratio))
        learned = torch.where(is_judged, torch.minimum(logs, middle + settings.score * scale), logs)
        ring[self._row] = torch.where(logs.isfinite(), learned, math.nan)
        self._row = (self._row + 1) % settings.window
        return Judged(scores, is_far)

    def state_dict(self) -> dict[str, torch.Tensor | int]:
        return {"ring": self._ring.clone(), "row": self._row}

    def load_state_dict(self, state: dict[str, torch.Tensor | int]) -> None:
        """Raises :class:`ValueError` where it is of other tensors or another window."""
        ring, row = state["ring"], state["row"]
        if not isinstance(ring, torch.Tensor) or ring.shape != self._ring.shape:
            raise ValueError("the state of the point test is of other tensors or another window")
        self._ring.copy_(ring)
        self._row = int(row)


def _median(columns: torch.Tensor, num_values: torch.Tensor) -> torch.Tensor:
    """Of the first ``num_values`` of each column's values in order; NaN sorts behind them."""
    ordered = columns.sort(0).values
    low, high = ((num_values - 1).clamp(min=0) // 2, (num_values // 2).clamp(max=len(columns) - 1))
    return 0.5 * (ordered.gather(0, low[None]) + ordered.gather(0, high[None])).squeeze(0)
