"""Clippy as its authors use it: on Adagrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from holter.producers.torch.clip.clipper import Origin
from holter.producers.torch.optim.adam import Group, learning_rate, tensors_of
from holter.producers.torch.optim.shrink import shrink_factor

ACCUMULATOR = "sum"


class ClippyAdagrad(torch.optim.Optimizer):
    """Per tensor, G ← G + g², r = g / √(G + ε), σ = min(1, min_i bound_i / (η |r_i|)), w ← w − η σ r, with
    bound = λ_rel |w| + λ_acc / √(G + ε) + λ_abs.

    Source: Tang et al., KDD 2023, arXiv 2302.09178, algorithm 1, with λ_acc = 0 and λ_rel .5, λ_abs .01. Its code
    in TensorFlow Recommenders differs: ``delayed_accumulator`` computes r with the G of before the step, and
    ``clip_accumulator`` adds (σ g)² to it; there λ_rel is .1, λ_abs and ε 1e-7. The authors leave embeddings out.
    """

    origin: ClassVar[Origin] = "paper"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        relative: float = 0.5,
        absolute: float = 1e-2,
        preconditioned: float = 0.0,
        eps: float = 0.0,
        initial_accumulator: float = 0.1,
        delayed_accumulator: bool = False,
        clip_accumulator: bool = False,
    ) -> None:
        if not (lr >= 0 and relative >= 0 and absolute > 0 and preconditioned >= 0 and initial_accumulator > 0):
            raise ValueError("Clippy needs absolute and initial_accumulator above 0 and the others at least 0")
        options = {"lr": lr, "relative": relative, "absolute": absolute, "preconditioned": preconditioned, "eps": eps}
        flags = {"delayed_accumulator": delayed_accumulator, "clip_accumulator": clip_accumulator}
        super().__init__(params, {**options, **flags, "initial_accumulator": initial_accumulator})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter, weight, gradient in zip(*tensors_of(group), strict=True):
                state = self.state[parameter]
                if not state:
                    state[ACCUMULATOR] = torch.full_like(weight, group["initial_accumulator"])
                _step(group, weight, gradient, state[ACCUMULATOR])
        return loss


def _step(group: Group, weight: torch.Tensor, gradient: torch.Tensor, accumulator: torch.Tensor) -> None:
    added = gradient.square()
    seen = accumulator if group["delayed_accumulator"] else accumulator + added
    preconditioner = (seen + group["eps"]).rsqrt()
    update = learning_rate(group) * gradient * preconditioner
    extra = group["preconditioned"] * preconditioner
    factor = shrink_factor(update, weight, group["relative"], group["absolute"], extra)
    accumulator.add_(added * factor.square() if group["clip_accumulator"] else added)
    weight.sub_(factor * update)
