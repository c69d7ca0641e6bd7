"""AutoClip: the global norm against a percentile of its history."""

from __future__ import annotations

import torch

from holter.producers.torch.clip.clipper import State
from holter.producers.torch.clip.global_clipper import GlobalClipper
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.clip.window import appended, quantile


class AutoClip(GlobalClipper):
    """The ceiling is the p-th percentile of all norms so far, this step's included; the norms are those that came.

    Source: Seetharaman et al., "AutoClip", MLSP 2020, with p = 10: nine steps of ten are scaled down, which only an
    optimizer that divides by the gradient's size makes sense of. The authors keep every norm of the run; here it is
    the newest ``window`` ones, so that memory and the sort stay bounded.
    """

    name = "autoclip"

    def __init__(self, percentile: float = 10.0, window: int = 10_000, ranks: Ranks | None = None) -> None:
        super().__init__(ranks)
        if not (0 <= percentile <= 100 and window >= 1):
            raise ValueError("AutoClip needs a percentile between 0 and 100 and a window of at least 1")
        self._share, self._window = percentile / 100, window

    def _fresh(self, norms: torch.Tensor) -> State:
        count = torch.zeros((), dtype=torch.int64, device=norms.device)
        return {"num_steps": count, "norms": torch.zeros(self._window, device=norms.device)}

    def _judge(self, norm: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        ring = appended(state["norms"], state["num_steps"], norm)
        count = state["num_steps"] + 1
        return quantile(ring, count, self._share), {"num_steps": count, "norms": ring}
