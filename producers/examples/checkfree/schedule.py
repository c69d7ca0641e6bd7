"""One training step of a pipeline: microbatches forward through the stages and backward again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn

from holter.producers.torch.checkfree import execution_order

Microbatch = tuple[Tensor, Tensor]


class Schedule:
    """Which stage hands on to which, by microbatch.

    Args:
        enter, leave: embedding and head; only in stages that can be the first or the last to see a microbatch.
    """

    def __init__(
        self, blocks: nn.Module, enter: nn.Module | None, leave: nn.Module | None, width: int, swaps: bool
    ) -> None:
        self._blocks, self._enter, self._leave = blocks, enter, leave
        self._width, self._swaps = width, swaps
        self._stage, self._num_stages = distributed.get_rank(), distributed.get_world_size()

    def run(self, microbatches: Sequence[Microbatch]) -> float:
        """Adds up this stage's gradients; returns the mean loss, in every stage the same.

        Raises:
            RuntimeError: another stage is gone.
        """
        total = torch.zeros(())
        runs = [self._forward(number, batch) for number, batch in enumerate(microbatches)]
        for number, (entered, left, loss) in enumerate(runs):
            self._backward(number, entered, left, loss, len(microbatches))
            total += 0.0 if loss is None else loss.detach() / len(microbatches)
        distributed.all_reduce(total)
        return float(total)

    def _forward(self, number: int, batch: Microbatch) -> tuple[Tensor, Tensor, Tensor | None]:
        inputs, targets = batch
        before, after = self._neighbours(number)
        if before is None:
            assert self._enter is not None
            entered = self._enter(inputs)
        else:
            entered = torch.empty(len(inputs), self._width)
            distributed.recv(entered, before)
            entered.requires_grad_()
        left = self._blocks(entered)
        if after is None:
            assert self._leave is not None
            return entered, left, nn.functional.mse_loss(self._leave(left), targets)
        distributed.send(left.detach(), after)
        return entered, left, None

    def _backward(self, number: int, entered: Tensor, left: Tensor, loss: Tensor | None, num_batches: int) -> None:
        before, after = self._neighbours(number)
        if loss is None:
            assert after is not None
            gradient = torch.empty_like(left)
            distributed.recv(gradient, after)
            torch.autograd.backward(left, gradient)
        else:
            torch.autograd.backward(loss / num_batches)
        if before is not None:
            assert entered.grad is not None
            distributed.send(entered.grad, before)

    def _neighbours(self, number: int) -> tuple[int | None, int | None]:
        order = execution_order(number, self._num_stages, self._swaps)
        at = order.index(self._stage)
        return order[at - 1] if at else None, order[at + 1] if at + 1 < len(order) else None
