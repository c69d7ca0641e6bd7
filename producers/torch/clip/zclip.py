"""ZClip: the global norm against its running mean and deviation."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from holter.producers.torch.clip.clipper import State
from holter.producers.torch.clip.global_clipper import GlobalClipper
from holter.producers.torch.clip.ranks import Ranks

Mode = Literal["reciprocal", "max", "mean"]


class ZClip(GlobalClipper):
    """Where z = (‖g‖ − μ) / (σ + 1e-6) > z*, the norm becomes n* = μ + (z*²/z) σ (``reciprocal``), μ + z* σ (``max``)
    or μ (``mean``).

    μ and σ are those before the step: of the first 25 norms their mean and population variance, then exponential
    averages of n* (of ‖g‖ where nothing was clipped): μ ← α μ + (1 − α) n*, σ² ← α σ² + (1 − α)(n* − μ_new)².
    ``max_norm`` caps what is let through besides, at all times, and is not learnt from.

    Source: Kumar et al., "ZClip", arXiv 2504.02507; ``max_norm`` 1 is their code's default, None is what their
    comparison against a fixed threshold means. z* = 2 from a learning rate of 3e-3 on. Norms are taken as normal: of
    log-normal ones with a log deviation of .15, 2.2 % are clipped for nothing.
    """

    name = "zclip"

    def __init__(
        self,
        max_score: float = 2.5,
        alpha: float = 0.97,
        warmup_steps: int = 25,
        max_norm: float | None = 1.0,
        mode: Mode = "reciprocal",
        clip_factor: float = 1.0,
        skip_update_on_spike: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(ranks)
        if mode not in get_args(Mode):
            raise ValueError(f"ZClip has no mode {mode!r}; it has {', '.join(get_args(Mode))}")
        if not (max_score > 0 and 0 <= alpha < 1 and warmup_steps >= 1 and (max_norm is None or max_norm > 0)):
            raise ValueError("ZClip needs max_score > 0, 0 ≤ alpha < 1, warmup_steps ≥ 1 and max_norm above 0 or None")
        self._max_score, self._alpha, self._warmup_steps, self._max_norm = max_score, alpha, warmup_steps, max_norm
        self._mode, self._clip_factor, self._skip_update = mode, clip_factor, skip_update_on_spike

    def _fresh(self, norms: torch.Tensor) -> State:
        zero = torch.zeros_like(norms)
        return {"num_steps": zero.to(torch.int64), "mean": zero, "variance": zero}

    def _judge(self, norm: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        mean, deviation = state["mean"], state["variance"].sqrt()
        is_warming = state["num_steps"] < self._warmup_steps
        score = (norm - mean) / (deviation + 1e-6)
        is_spike = ~is_warming & (score > self._max_score)
        reduced = self._reduced(mean, deviation, score)
        quiet = torch.where(is_warming, torch.inf, mean + self._max_score * deviation)
        ceiling = torch.where(is_spike, reduced, quiet)
        if self._max_norm is not None:
            ceiling = ceiling.clamp(max=self._max_norm)
        followed = self._followed(torch.where(is_spike, reduced, norm), state, is_warming)
        if self._skip_update:
            followed = {name: torch.where(is_spike, state[name], value) for name, value in followed.items()}
        return ceiling, followed

    def _reduced(self, mean: torch.Tensor, deviation: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        if self._mode == "mean":
            return mean * self._clip_factor
        reach = self._max_score if self._mode == "max" else self._max_score**2 / score
        return (mean + reach * deviation) * self._clip_factor

    def _followed(self, norm: torch.Tensor, state: State, is_warming: torch.Tensor) -> State:
        """One recursion for both phases: with the weight 1/n it gives mean and population variance of the first n."""
        count = state["num_steps"] + 1
        weight = torch.where(is_warming, 1.0 / count, 1.0 - self._alpha)
        mean = state["mean"].lerp(norm, weight)
        other = torch.where(is_warming, state["mean"], mean)
        variance = state["variance"].lerp((norm - other) * (norm - mean), weight)
        return {"num_steps": count, "mean": mean, "variance": variance}
