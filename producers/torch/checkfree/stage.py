"""What a process of a pipeline needs to be rebuilt, or to help rebuild a neighbour."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import distributed, nn

from holter.producers.torch.checkfree.order import sources
from holter.producers.torch.checkfree.rebuild import rebuild
from holter.producers.torch.clip.norms import global_norm
from holter.producers.torch.clip.ranks import Ranks
from holter.producers.torch.learning_rate import scale_rates

_SMALLEST_NORM = 1e-4
"""Of the authors' code: stages that learn nothing are averaged evenly."""


class Replica(NamedTuple):
    """A module that this stage and another hold both, such as the embedding in the first two stages."""

    module: nn.Module
    partner: int


class Stage:
    """One stage of a pipeline, in the process that runs it. Its number is the rank in ``group``.

    It notes the gradient norm of its blocks at every optimizer step, which is all the bookkeeping there is: no copy,
    no storage, no communication until a stage is lost.

    Args:
        blocks: what all stages have alike, in structure and shapes. Buffers are not rebuilt.
        replicas: CheckFree+ copies embedding and head to the neighbouring stage, since no average can make them again.
            Their parameters have parameter groups of their own, or the larger learning rate of a rebuilt stage would
            drive the copies apart.
        swaps: whether microbatches run in :func:`~holter.producers.torch.checkfree.order.execution_order` with swapped
            ends; only then can the first and the last stage be rebuilt.
        learning_rate_factor: what a rebuilt stage's learning rate is multiplied by: 1.1 in the paper, 1.2 in its
            settings for 500 M parameters. It stays, and is lost with the process that is rebuilt a second time.

    Raises:
        ValueError: a parameter group holds blocks and replicas.
    """

    def __init__(
        self,
        blocks: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        scheduler: Any | None = None,
        replicas: Sequence[Replica] = (),
        swaps: bool = False,
        learning_rate_factor: float = 1.1,
        group: distributed.ProcessGroup | None = None,
    ) -> None:
        self._group = group
        self._weights = list(blocks.parameters())
        self._optimizer, self._scheduler = optimizer, scheduler
        self._replicas = replicas
        self._swaps = swaps
        self._learning_rate_factor = learning_rate_factor
        self._groups = _groups_with(self._weights, optimizer)
        if self._groups & _groups_with([each for replica in replicas for each in _parameters(replica)], optimizer):
            raise ValueError("give replicas parameter groups of their own: a rebuilt stage's learning rate is raised")
        self._norm = torch.zeros((), device=self._weights[0].device)
        optimizer.register_step_pre_hook(self._note_norm)

    @property
    def number(self) -> int:
        return distributed.get_rank(self._group)

    @property
    def num_stages(self) -> int:
        return distributed.get_world_size(self._group)

    def objection(self, lost: int) -> str:
        """Why this stage cannot be rebuilt; empty where it can."""
        try:
            sources(lost, self.num_stages, self._swaps)
        except ValueError as error:
            return str(error)
        return ""

    def rebuild(self, lost: int) -> float | None:
        """Makes the stage ``lost`` again; every stage calls it at the same place, between two steps.

        The lost stage's blocks become the average of their neighbours, or a copy at the ends, its moments start anew
        and its learning rate is raised; replicas become equal again, those of the lost stage with their moments.

        Returns:
            In the lost stage its new learning rate, else None.

        Raises:
            ValueError: it cannot be rebuilt; nothing was changed. RuntimeError: another stage is gone.
        """
        helpers = sources(lost, self.num_stages, self._swaps)
        if self.number in helpers:
            weights = [weight.detach().cpu() for weight in self._weights]
            self._send((weights, float(self._norm) + _SMALLEST_NORM), lost)
        rate = self._become(helpers) if self.number == lost else None
        for replica in self._replicas:
            self._equalise(replica, lost)
        return rate

    def add_up_replicas(self) -> None:
        """Adds up the gradients of replicas, after the backward pass and before any clipping; all stages call it."""
        for replica in self._replicas:
            gradients = [_gradient(parameter) for parameter in _parameters(replica)]
            theirs = self._swap_with(replica.partner, [gradient.cpu() for gradient in gradients])
            torch._foreach_add_(gradients, [each.to(own.device) for each, own in zip(theirs, gradients, strict=True)])

    @torch.no_grad()
    def _note_norm(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        norm = global_norm(self._weights, Ranks())
        self._norm = torch.where(torch.isfinite(norm), norm, self._norm)

    @torch.no_grad()
    def _become(self, helpers: tuple[int, ...]) -> float:
        received = [self._receive(helper) for helper in helpers]
        (before, norm_before), (after, norm_after) = received[0], received[-1]
        for own, value in zip(self._weights, rebuild(before, after, norm_before, norm_after), strict=True):
            own.copy_(value)
            self._optimizer.state.pop(own, None)
        scale_rates(self._optimizer, self._scheduler, self._learning_rate_factor, self._groups)
        return float(self._optimizer.param_groups[min(self._groups)]["lr"])

    @torch.no_grad()
    def _equalise(self, replica: Replica, lost: int) -> None:
        giver = min(number for number in (self.number, replica.partner) if number != lost)
        state, own = self._optimizer.state, _parameters(replica)
        if giver == self.number:
            self._send(([each.detach().cpu() for each in own], [state.get(each) for each in own]), replica.partner)
            return
        values, moments = self._receive(giver)
        for parameter, value, moment in zip(own, values, moments, strict=True):
            parameter.copy_(value)
            state.pop(parameter, None)
            if moment is not None:
                state[parameter] = {name: _placed(each, parameter) for name, each in moment.items()}

    def _swap_with(self, partner: int, content: Any) -> Any:
        if self.number < partner:
            self._send(content, partner)
            return self._receive(partner)
        theirs = self._receive(partner)
        self._send(content, partner)
        return theirs

    def _send(self, content: Any, number: int) -> None:
        distributed.send_object_list([content], self._global_rank(number), group=self._group)

    def _receive(self, number: int) -> Any:
        received: list[Any] = [None]
        distributed.recv_object_list(received, self._global_rank(number), group=self._group)
        return received[0]

    def _global_rank(self, number: int) -> int:
        return number if self._group is None else distributed.get_global_rank(self._group, number)


def _groups_with(parameters: Collection[nn.Parameter], optimizer: torch.optim.Optimizer) -> frozenset[int]:
    wanted = {id(parameter) for parameter in parameters}
    groups = enumerate(optimizer.param_groups)
    return frozenset(at for at, group in groups if wanted & {id(parameter) for parameter in group["params"]})


def _parameters(replica: Replica) -> list[nn.Parameter]:
    return list(replica.module.parameters())


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _placed(value: Any, parameter: nn.Parameter) -> Any:
    """Moments lie with their parameter, step counters where they were."""
    is_moment = isinstance(value, torch.Tensor) and value.shape == parameter.shape and value.ndim > 0
    return value.to(parameter.device) if is_moment else value
