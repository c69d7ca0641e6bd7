"""MSign: now and then, all singular values of a weight matrix become equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch

from holter.producers.torch.clip.clipper import Origin
from holter.producers.torch.optim.polar import Form, same_norm_polar
from holter.producers.torch.optim.wrapper import Wrapper
from holter.producers.torch.sharding import is_sharded

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)


@dataclass(frozen=True)
class Spread:
    """A matrix that ranks hold parts of, by hand: ``DTensor`` weights need none."""

    gather: Callable[[torch.Tensor], torch.Tensor]
    """The whole, of which the argument is this rank's part."""
    scatter: Callable[[torch.Tensor], torch.Tensor]
    """This rank's part of the whole."""


class MSign(Wrapper):
    """Every P-th step, after the base optimizer's: W ← ‖W‖_F · U Vᵀ / ‖U Vᵀ‖_F for each target.

    It restores the stable rank ‖W‖_F² / ‖W‖₂², whose loss lets the layers' Jacobians, and with them the gradient,
    explode. It looks at weights, not at the signs of gradients.

    Source: Ren et al., "MSign", arXiv 2602.01734: P = 100, on the projections of attention (those of the outputs
    suffice, MLPs alone do not) or on all matrices, which gave the better perplexity; 10³ works, 10⁵ fails. Without a
    state but its step count. An SVD of a d × d matrix costs 13 d³; ``newton_schulz`` costs 36 products and does not
    wait for the device.

    Args:
        targets: the parameters; by default all of the base optimizer's with two dimensions or more (of more, all but
            the first are one). :func:`attention_projections` finds those of attention.
        spread: for targets that are parts of a matrix, by ``id`` of the parameter.
    """

    origin: ClassVar[Origin] = "paper"
    key = "msign"

    def __init__(
        self,
        base: torch.optim.Optimizer,
        every: int = 100,
        form: Form = "svd",
        targets: Iterable[torch.nn.Parameter] | None = None,
        spread: dict[int, Spread] | None = None,
    ) -> None:
        if form not in get_args(Form):
            raise ValueError(f"form is {' or '.join(get_args(Form))}, not {form!r}")
        if every < 1:
            raise ValueError(f"every is a number of steps, at least 1, not {every}")
        super().__init__(base)
        self._every, self._form, self._spread = every, form, spread or {}
        self._targets = None if targets is None else list(targets)
        self._num_steps = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        with self._forwarded_flags():
            loss = self.base.step() if closure is None else self.base.step(closure)
        self._num_steps += 1
        if self._num_steps % self._every == 0:
            for target in self.targets:
                self._restore(target)
        return loss

    @property
    def targets(self) -> list[torch.nn.Parameter]:
        if self._targets is not None:
            return self._targets
        return [each for group in self.param_groups for each in group["params"] if each.ndim > 1]

    @torch.no_grad()
    def _restore(self, weight: torch.nn.Parameter) -> None:
        spread = _of_dtensor(weight) if is_sharded(weight) else self._spread.get(id(weight))
        whole = weight.detach() if spread is None else spread.gather(weight.detach())
        restored = same_norm_polar(whole.flatten(1), self._form).view(whole.shape)
        weight.copy_(restored if spread is None else spread.scatter(restored))

    def _own_state(self) -> dict[str, Any]:
        return {"num_steps": self._num_steps}

    def _load_own_state(self, state: dict[str, Any]) -> None:
        self._num_steps = int(state["num_steps"])


def attention_projections(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The matrices in modules that are called attention. Where one matrix makes queries, keys and values together, it
    is one target: the paper has them apart."""
    return [weight for name, weight in model.named_parameters() if weight.ndim == 2 and _ATTENTION.search(name)]


def _of_dtensor(weight: Any) -> Spread:
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = weight.device_mesh, weight.placements
    return Spread(
        lambda part: part.full_tensor(),  # type: ignore[attr-defined]
        lambda whole: distribute_tensor(whole, mesh, placements),
    )
