"""EMA-MAD: the global norm against its average and its median deviation."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from holter.producers.torch.clip.clipper import State
from holter.producers.torch.clip.global_clipper import GlobalClipper
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.clip.window import appended, median_deviation

_NORMAL_MAD = 1.4826
Feed = Literal["clipped", "raw"]


class EmaMad(GlobalClipper):
    """τ_t = α EMA(‖g_{t−1}‖) + β MAD(window of norms before t), g ← g min(1, τ_t / ‖g‖).

    A rule of nobody's paper: the adaptive threshold of a design report that took it for AdaGC. Its units are made
    right here: the deviation is that of *norms*, not of the gradient's coordinates. α = 1 and β = 4 · 1.4826 make it
    "the average and four robust deviations". The report leaves open which norm is averaged: the one let through
    (``feed="clipped"``), so that a spike cannot lift its own threshold for a hundred steps, or the one that came
    (``"raw"``).

    The first ``min_samples`` steps are clipped to ``warmup_norm`` (None: not at all) and learnt.
    """

    name = "ema_mad"
    origin = "report-variant"

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4 * _NORMAL_MAD,
        decay: float = 0.97,
        window: int = 100,
        min_samples: int = 25,
        warmup_norm: float | None = 1.0,
        feed: Feed = "clipped",
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(ranks)
        if feed not in get_args(Feed):
            raise ValueError(f"feed is {' or '.join(get_args(Feed))}, not {feed!r}")
        if not (alpha > 0 and beta >= 0 and 0 <= decay < 1 and 1 <= min_samples <= window):
            raise ValueError("EMA-MAD needs alpha > 0, beta ≥ 0, 0 ≤ decay < 1 and 1 ≤ min_samples ≤ window")
        self._alpha, self._beta, self._decay = alpha, beta, decay
        self._window, self._min_samples, self._feed = window, min_samples, feed
        self._warmup_norm = torch.inf if warmup_norm is None else warmup_norm

    def _fresh(self, norms: torch.Tensor) -> State:
        count = torch.zeros((), dtype=torch.int64, device=norms.device)
        ring = torch.zeros(self._window, device=norms.device)
        return {"num_steps": count, "average": torch.zeros_like(norms), "norms": ring}

    def _judge(self, norm: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        count, average, ring = state["num_steps"], state["average"], state["norms"]
        ceiling = self._alpha * average + self._beta * median_deviation(ring, count)
        ceiling = torch.where(count < self._min_samples, self._warmup_norm, ceiling)
        fed = norm if self._feed == "raw" else self._let_through(norm, ceiling, count)
        average = torch.where(count == 0, fed, average.lerp(fed, 1 - self._decay))
        return ceiling, {"num_steps": count + 1, "average": average, "norms": appended(ring, count, fed)}

    def _let_through(self, norm: torch.Tensor, ceiling: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        """During warm-up the norm itself: the fixed ceiling says nothing of this model's norms."""
        return torch.where(count < self._min_samples, norm, torch.minimum(norm, ceiling))
