"""The faults. What is bound to a data position is met again when the data is; what is bound to a moment is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from holter.infra.demo.faults import Fault as DemoFault
from holter.infra.rescue.workload import Batch, Setup, WorkloadName

Bound = Literal["data position", "wall step"]

_WARMUP_STEPS_LEFT = 150
_GRADIENT_FACTOR = 1000.0
_VOCABULARY_SIZE = 128
_EXPONENT_TOP_BIT = 1 << 30


class Fault:
    """Does nothing; what differs is said by the kinds below.

    Args:
        at: the first struck batch where it is bound to the data, else the first struck executed step of this process.
        num_struck: how many in a row.
    """

    bound: Bound = "wall step"
    num_struck = 1
    rank = 0
    """Of the process that it is in."""

    def __init__(self, at: int) -> None:
        self.at = at

    def is_struck(self, executed: int, index: int) -> bool:
        position = index if self.bound == "data position" else executed
        return self.at <= position < self.at + self.num_struck

    def hurt_batch(self, index: int, batch: Batch) -> Batch:
        return batch

    def attach(self, setup: Setup, checkpoints: Path) -> None:
        """Before the first step."""

    def before_step(self, setup: Setup) -> None:
        """Before the forward pass of a struck step."""

    def after_backward(self, setup: Setup) -> None:
        """Between the backward pass and the optimizer's step of a struck step."""


class _OfDemo(Fault):
    """One of the demo's, which counts by itself."""

    def __init__(self, at: int, name: Literal["lr-burst", "nan"]) -> None:
        super().__init__(at)
        self._fault = DemoFault(name, at, _VOCABULARY_SIZE)

    def hurt_batch(self, index: int, batch: Batch) -> Batch:
        return self._fault.hurt_batch(index, batch)

    def attach(self, setup: Setup, checkpoints: Path) -> None:
        self._fault.attach(setup.optimizer)


class LrBurst(_OfDemo):
    """The learning rate × 30 for five steps, where no scheduler sees it."""

    num_struck = 5

    def __init__(self, at: int) -> None:
        super().__init__(at, "lr-burst")


class BadData(Fault):
    """Twenty batches of random tokens."""

    bound = "data position"
    num_struck = 20

    def hurt_batch(self, index: int, batch: Batch) -> Batch:
        if not self.is_struck(-1, index):
            return batch
        tokens, weights = batch
        generator = torch.Generator().manual_seed(index)
        return torch.randint(_VOCABULARY_SIZE, tokens.shape, generator=generator), weights


class NanLoss(_OfDemo):
    """Five batches whose loss is not a number."""

    bound = "data position"
    num_struck = 5

    def __init__(self, at: int) -> None:
        super().__init__(at, "nan")


class NanOnOneRank(Fault):
    """Five batches of the second of two ranks are not numbers."""

    bound = "data position"
    num_struck = 5

    def hurt_batch(self, index: int, batch: Batch) -> Batch:
        if self.rank != 1 or not self.is_struck(-1, index):
            return batch
        images, labels = batch
        return torch.full_like(images, torch.nan), labels


class GradientBurst(Fault):
    """Five batches at which the gradients of every second matrix are × 1000."""

    bound = "data position"
    num_struck = 5

    def after_backward(self, setup: Setup) -> None:
        matrices = [weight for weight in setup.model.parameters() if weight.dim() > 1]
        for weight in matrices[::2]:
            assert weight.grad is not None
            weight.grad.mul_(_GRADIENT_FACTOR)


class PoisonedMoments(Fault):
    """The optimizer's first moments are overwritten with noise, a hundred times as large as they were."""

    @torch.no_grad()
    def before_step(self, setup: Setup) -> None:
        generator = torch.Generator().manual_seed(self.at)
        for state in setup.optimizer.state.values():
            moment: Tensor = state["exp_avg"] if "exp_avg" in state else state["momentum_buffer"]
            size = 100.0 * moment.square().mean().sqrt()
            moment.copy_(size * torch.randn(moment.shape, generator=generator))


class BitFlip(Fault):
    """The top bit of one weight's exponent."""

    @torch.no_grad()
    def before_step(self, setup: Setup) -> None:
        weight = next(weight for weight in setup.model.parameters() if weight.dim() > 1)
        bits = weight.view(torch.int32).flatten()
        bits[bits.numel() // 2] ^= _EXPONENT_TOP_BIT


class ScaleCollapse(Fault):
    """Forty-five batches whose gradients overflow half precision at every scale, until ordinary ones vanish."""

    bound = "data position"
    num_struck = 45

    def after_backward(self, setup: Setup) -> None:
        weight = next(setup.model.parameters())
        assert weight.grad is not None
        weight.grad[0].fill_(torch.inf)


class NoWarmup(Fault):
    """The rest of the warm-up is left out: from one step to the next the learning rate is at its peak."""

    num_struck = _WARMUP_STEPS_LEFT

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self._executed = 0

    def attach(self, setup: Setup, checkpoints: Path) -> None:
        rates: list[float] = []

        def raise_rate(optimizer: Optimizer, args: object, kwargs: object) -> None:
            rates[:] = [group["lr"] for group in optimizer.param_groups]
            peak_factor = 1.0 / max(1e-6, setup.scheduler.lr_lambdas[0](setup.scheduler.last_epoch))
            if self.is_struck(self._executed, -1):
                for group in optimizer.param_groups:
                    group["lr"] *= peak_factor

        def restore_rate(optimizer: Optimizer, args: object, kwargs: object) -> None:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            self._executed += 1

        setup.optimizer.register_step_pre_hook(raise_rate)
        setup.optimizer.register_step_post_hook(restore_rate)


class LrBurstAndDamagedCheckpoint(LrBurst):
    """The same burst, and the checkpoint that the run would go back to is damaged on the disk."""

    def attach(self, setup: Setup, checkpoints: Path) -> None:
        super().attach(setup, checkpoints)
        self._checkpoints, self._is_done = checkpoints, False

    def before_step(self, setup: Setup) -> None:
        if not self._is_done:
            self._is_done = True
            _damage(_last_healthy(self._checkpoints))


def _last_healthy(folder: Path) -> Path:
    """The newest but one: a checkpoint is called healthy when the steps to the next one went well."""
    return sorted(folder.rglob("*.pt"), key=_written_ns)[-2]


def _written_ns(path: Path) -> int:
    """The saver rotates beside the training: what is gone meanwhile was the oldest."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _damage(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


@dataclass(frozen=True)
class FaultKind:
    """A row of the table."""

    name: str
    workload: WorkloadName
    make: Callable[[int], Fault]
    bound: Bound

    @property
    def description(self) -> str:
        return (getattr(self.make, "__doc__", None) or "").split("\n")[0]


def _kind(name: str, workload: WorkloadName, make: type[Fault]) -> FaultKind:
    return FaultKind(name, workload, make, make.bound)


FAULTS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        _kind("lr-burst", "gpt", LrBurst),
        _kind("gradient-burst", "gpt-long-memory", GradientBurst),
        _kind("bad-data", "gpt", BadData),
        _kind("poisoned-moments", "convnet", PoisonedMoments),
        _kind("nan-loss", "gpt", NanLoss),
        _kind("nan-on-one-rank", "convnet-2-ranks", NanOnOneRank),
        _kind("bit-flip", "convnet", BitFlip),
        _kind("scale-collapse", "gpt-fp16", ScaleCollapse),
        _kind("no-warmup", "gpt-warmup", NoWarmup),
        _kind("lr-burst-damaged-checkpoint", "gpt", LrBurstAndDamagedCheckpoint),
    )
}
