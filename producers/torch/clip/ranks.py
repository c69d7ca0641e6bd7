"""How squared norms add up where every rank holds a part of the model.

Gradients that are ``DTensor`` say by themselves how they are spread. Plain tensors do not: who splits a model by hand
(tensor, pipeline or expert parallelism) says it here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import distributed

AddUp = Callable[[torch.Tensor], torch.Tensor]
"""Gives the sum over the ranks, the same on each. Every rank calls it as often and with the same shape."""


def _always(parameter: torch.nn.Parameter) -> bool:
    return True


@dataclass(frozen=True)
class Ranks:
    """The ranks that hold distinct parts of the gradient: not those of plain data parallelism, which all hold the same.

    A rule over the global norm needs all of them. A rule per tensor needs only those that split a tensor among
    themselves (not the stages of a pipeline), each with the same parameters in the same order.
    """

    add_up: AddUp | None = None
    counts: Callable[[torch.nn.Parameter], bool] = _always
    """Whether this rank counts a parameter: of one that is replicated over these ranks, exactly one has to."""


def sum_over(group: distributed.ProcessGroup | None = None) -> AddUp:
    """An all-reduce over the group; on a device nobody waits for it."""

    def add_up(amount: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(amount, group=group)
        return amount

    return add_up
