"""CheckFree's claim: a lost stage is best made of its neighbours by gradient norms, worst at random."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from msgspec import Struct
from torch import nn

from holter.infra.demo.corpus import Batches, read_corpus
from holter.infra.demo.model import Gpt
from holter.infra.stabilisers.setting import OrderingSetting
from holter.infra.stabilisers.trial import cosine, unhurt
from holter.producers.torch.checkfree import rebuild
from holter.producers.torch.clip import GlobalGC

Remedy = Literal["nothing lost", "random", "copy", "average", "weighted"]
REMEDIES: tuple[Remedy, ...] = get_args(Remedy)
_RATE_FACTOR = 1.1
_RECOVERY_SHARE = 0.04
"""Of the run: how long after a loss the excess is averaged."""


class Recovery(NamedTuple):
    remedy: Remedy
    seed: int

    @property
    def name(self) -> str:
        return f"checkfree--{self.remedy.replace(' ', '-')}--{self.seed}"


class RecoveryResult(Struct, frozen=True):
    loss: float
    """Held out, in nats, at the end."""
    jumps: list[float]
    """By how much the held out loss was higher just after each loss of a stage."""
    train_loss_after: float
    """Mean training loss over the steps after the losses; the same batches for every remedy of a seed."""
    cpu_seconds: float


def run_recovery(recovery: Recovery, setting: OrderingSetting) -> RecoveryResult:
    torch.set_num_threads(1)
    begun = time.thread_time()
    training = _Pipeline(recovery, setting)
    training.run()
    return RecoveryResult(training.held_out_loss(), training.jumps, training.loss_after(), time.thread_time() - begun)


class _Pipeline:
    """The stages of a model in one process: what is lost and rebuilt is the same as between processes."""

    def __init__(self, recovery: Recovery, setting: OrderingSetting) -> None:
        torch.manual_seed(recovery.seed)
        toy = setting.toy
        self._remedy, self._setting, self._seed = recovery.remedy, setting, recovery.seed
        self._model = Gpt(toy.model())
        size = toy.num_layers // setting.num_stages
        blocks = list(self._model.blocks)
        stages = [nn.ModuleList(blocks[at : at + size]) for at in range(0, len(blocks), size)]
        self._stages = [list(stage.parameters()) for stage in stages]
        inner = {id(weight) for stage in self._stages for weight in stage}
        rest = [weight for weight in self._model.parameters() if id(weight) not in inner]
        groups = [{"params": each, "factor": 1.0} for each in (*self._stages, rest)]
        self._optimizer = torch.optim.Adam(groups, lr=toy.learning_rate, betas=(0.9, 0.999), fused=True)
        self._norms = [0.0] * len(self._stages)
        self._batches = Batches(read_corpus(), recovery.seed, toy.batch_size, toy.context, unhurt)
        self._losses: list[float] = []
        self.jumps: list[float] = []

    def run(self) -> None:
        for step, batch in zip(range(self._setting.toy.num_steps), self._batches, strict=False):
            if step in self._lost_at():
                self._lose(1 + len(self.jumps) % (len(self._stages) - 2))
            loss = self._model(*batch)
            loss.backward()
            for number, weights in enumerate(self._stages):
                self._norms[number] = float(GlobalGC(1.0).clip(weights).norm_after)
            for group in self._optimizer.param_groups:
                group["lr"] = cosine(step, self._setting.toy) * group["factor"]
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
            self._losses.append(loss.item())

    @torch.no_grad()
    def held_out_loss(self) -> float:
        losses = [float(self._model(*batch)) for batch in self._batches.held_out(self._setting.toy.num_held_out)]
        return math.fsum(losses) / len(losses)

    def loss_after(self) -> float:
        length = max(1, round(_RECOVERY_SHARE * self._setting.toy.num_steps))
        after = [loss for begin in self._lost_at() for loss in self._losses[begin : begin + length]]
        return math.fsum(after) / len(after)

    def _lost_at(self) -> list[int]:
        return [round(share * self._setting.toy.num_steps) for share in self._setting.lost_at]

    @torch.no_grad()
    def _lose(self, lost: int) -> None:
        before = self.held_out_loss()
        if self._remedy != "nothing lost":
            for weight, value in zip(self._stages[lost], self._made_again(lost), strict=True):
                weight.copy_(value)
                self._optimizer.state.pop(weight, None)
            self._optimizer.param_groups[lost]["factor"] *= _RATE_FACTOR
        self.jumps.append(self.held_out_loss() - before)

    def _made_again(self, lost: int) -> Sequence[torch.Tensor]:
        before, after = self._stages[lost - 1], self._stages[lost + 1]
        if self._remedy == "random":
            return self._at_random(lost)
        if self._remedy == "copy":
            return [weight.clone() for weight in before]
        norms = (1.0, 1.0) if self._remedy == "average" else (self._norms[lost - 1], self._norms[lost + 1])
        return rebuild(before, after, *norms)

    def _at_random(self, lost: int) -> list[torch.Tensor]:
        """As the model began, from a seed that no remedy else uses."""
        with torch.random.fork_rng():
            torch.manual_seed(1_000_003 * (self._seed + 1) + len(self.jumps))
            fresh = Gpt(self._setting.toy.model())
        size = len(fresh.blocks) // len(self._stages)
        blocks = list(fresh.blocks)[lost * size : (lost + 1) * size]
        return [weight.detach() for block in blocks for weight in block.parameters()]
