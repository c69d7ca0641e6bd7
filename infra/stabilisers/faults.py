"""Hurting a step: its data, its gradients or its learning rate."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from holter.infra.demo.corpus import Batch
from holter.infra.stabilisers.setting import FaultName

_GRADIENT_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)
_GRADIENT_FACTOR = 1000.0
_NUM_MATRICES = 3
_DATA_SHARES = (0.3, 0.5, 0.7)
_DATA_BATCHES = 3
_LR_SHARE = 0.58
_LR_STEPS = 5
_LR_FACTOR = 30.0


@dataclass(frozen=True)
class Fault:
    """Strikes by the number of the executed step, from 0, so that going back does not meet it again."""

    name: FaultName
    num_steps: int
    seed: int

    @property
    def last_struck(self) -> int | None:
        """The last step that the learning rate burst hurts."""
        return self._at(_LR_SHARE) + _LR_STEPS - 1 if self.name == "lr" else None

    def onset_of_ended(self, executed: int) -> int | None:
        """Where the fault began whose last struck step this is."""
        length = {"clean": 0, "gradient": 1, "data": _DATA_BATCHES, "lr": _LR_STEPS}[self.name]
        shares = {"clean": (), "gradient": _GRADIENT_SHARES, "data": _DATA_SHARES, "lr": (_LR_SHARE,)}[self.name]
        return next((self._at(share) for share in shares if executed == self._at(share) + length - 1), None)

    def hurt_batch(self, executed: int, batch: Batch) -> Batch:
        """Bursts of random tokens, every other one of a constant token."""
        begins = [self._at(share) for share in _DATA_SHARES]
        burst = next((at for at, begin in enumerate(begins) if begin <= executed < begin + _DATA_BATCHES), None)
        if self.name != "data" or burst is None:
            return batch
        tokens, weights = batch
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + executed)
        garbage = torch.randint(128, tokens.shape, generator=generator)
        return garbage if burst % 2 == 0 else torch.full_like(tokens, int(garbage[0, 0])), weights

    def hurt_gradients(self, executed: int, parameters: list[torch.nn.Parameter]) -> None:
        """Three random matrices, ×1000."""
        if self.name != "gradient" or executed not in [self._at(share) for share in _GRADIENT_SHARES]:
            return
        matrices = [each for each in parameters if each.ndim > 1 and each.grad is not None]
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + executed)
        for at in torch.randperm(len(matrices), generator=generator)[:_NUM_MATRICES].tolist():
            gradient = matrices[at].grad
            assert gradient is not None
            gradient.mul_(_GRADIENT_FACTOR)

    def rate_factor(self, executed: int) -> float:
        begin = self._at(_LR_SHARE)
        return _LR_FACTOR if self.name == "lr" and begin <= executed < begin + _LR_STEPS else 1.0

    def _at(self, share: float) -> int:
        return round(share * self.num_steps)
