"""Ways to hurt a run: ``lr-burst`` strikes at a moment, the other two lie in the data and are met again on a replay."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch.optim import Optimizer

from holter.infra.demo.corpus import Batch

FaultName = Literal["none", "lr-burst", "bad-data", "nan"]
FAULTS: tuple[FaultName, ...] = get_args(FaultName)

LR_FACTOR = 30.0
_NUM_STRUCK = {"none": 0, "lr-burst": 5, "bad-data": 10, "nan": 5}


class Fault:
    """A fault that begins at step, or batch, ``at``."""

    def __init__(self, name: FaultName, at: int, vocabulary_size: int) -> None:
        self.name = name
        self.at = at
        self._num_struck = _NUM_STRUCK[name]
        self._vocabulary_size = vocabulary_size
        self._executed = 0

    def hurt_batch(self, index: int, batch: Batch) -> Batch:
        """Garbage tokens, or a sample weight that is not a number."""
        if not self.at <= index < self.at + self._num_struck:
            return batch
        tokens, weights = batch
        if self.name == "bad-data":
            generator = torch.Generator().manual_seed(index)
            return torch.randint(self._vocabulary_size, tokens.shape, generator=generator), weights
        if self.name == "nan":
            return tokens, torch.full_like(weights, torch.nan)
        return batch

    def attach(self, optimizer: Optimizer) -> None:
        """Lets a burst strike inside the optimizer's own step, where no scheduler sees it."""
        if self.name == "lr-burst":
            optimizer.register_step_pre_hook(self._heat)
            optimizer.register_step_post_hook(self._cool)

    def strikes(self, executed: int, index: int) -> bool:
        """Whether this step is struck: the ``executed``-th from 0, on the batch ``index``."""
        position = executed if self.name == "lr-burst" else index
        return self.at <= position < self.at + self._num_struck

    def _heat(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self._scale(optimizer, LR_FACTOR)

    def _cool(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self._scale(optimizer, 1.0 / LR_FACTOR)
        self._executed += 1

    def _scale(self, optimizer: Optimizer, factor: float) -> None:
        if self.strikes(self._executed, -1):
            for group in optimizer.param_groups:
                group["lr"] *= factor
