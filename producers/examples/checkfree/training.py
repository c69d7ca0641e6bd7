"""What the process of one stage does: train, and after a death anywhere come together again and go on."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import Store

from holter.producers.examples.checkfree.schedule import Microbatch, Schedule
from holter.producers.torch import clip
from holter.producers.torch.checkfree import Generation, Membership, Replica, Stage

NUM_INPUTS = 16


@dataclass(frozen=True)
class Settings:
    num_stages: int = 4
    num_steps: int = 200
    width: int = 64
    num_blocks: int = 2
    batch_size: int = 64
    num_microbatches: int = 4
    learning_rate: float = 2e-3
    swaps: bool = True
    kill: tuple[int, int] | None = None
    """The stage that kills itself in the middle of this step, counted from 0."""


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU())
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = x + self.outer(self.inner(x))
        return mixed


class StageTraining:
    """Weights and optimizer of a stage, which outlive the process groups that it is in."""

    def __init__(self, number: int, settings: Settings) -> None:
        torch.manual_seed(number)
        self.number, self.settings, self.step = number, settings, 0
        self.blocks = nn.Sequential(*(Block(settings.width) for _ in range(settings.num_blocks)))
        torch.manual_seed(0)  # replicas begin equal
        last = settings.num_stages - 1
        self.enter = nn.Linear(NUM_INPUTS, settings.width) if number in (0, 1) else None
        self.leave = nn.Linear(settings.width, 1) if number in (last - 1, last) else None
        partners = ((self.enter, 1 - number), (self.leave, 2 * last - 1 - number))
        self.replicas = [Replica(module, partner) for module, partner in partners if module is not None]
        groups = [list(module.parameters()) for module in (self.blocks, *(each.module for each in self.replicas))]
        self.optimizer = torch.optim.Adam([{"params": group} for group in groups], lr=settings.learning_rate)
        self.clips = [(clip.make("globalgc", max_norm=1.0), group) for group in groups]
        self.stage = Stage(self.blocks, self.optimizer, replicas=self.replicas, swaps=settings.swaps)

    def come_together(self, generation: Generation) -> None:
        """Rebuilds what was lost and agrees on the step to go on with.

        Stages that had ended the step while others had not are one update ahead, which is no more than what a
        rebuilt stage misses; so nobody goes back.
        """
        for lost in generation.lost:
            self.stage.rebuild(lost)
        step = torch.tensor(self.step)
        distributed.all_reduce(step, distributed.ReduceOp.MAX)
        self.step = int(step)
        self.optimizer.zero_grad()

    def train(self, store: Store, is_first_life: bool) -> None:
        """Raises :class:`RuntimeError` when another stage is gone."""
        schedule = Schedule(self.blocks, self.enter, self.leave, self.settings.width, self.settings.swaps)
        while self.step < self.settings.num_steps:
            if is_first_life and self.settings.kill == (self.number, self.step):
                os.kill(os.getpid(), signal.SIGKILL)
            loss = schedule.run(microbatches(self.step, self.settings))
            self.stage.add_up_replicas()
            for clipper, parameters in self.clips:
                clipper.clip(parameters)
            self.optimizer.step()
            self.optimizer.zero_grad()
            store.set(f"loss/{self.step}", repr(loss))
            self.step += 1
        distributed.barrier()


def train_stage(number: int, port: int, settings: Settings) -> None:
    """The whole life of a process."""
    torch.set_num_threads(1)
    store = TCPStore("127.0.0.1", port, is_master=False)
    membership = Membership(store, number, settings.num_stages, timedelta(seconds=30))
    training = StageTraining(number, settings)
    while True:
        try:
            generation = membership.join()
            training.come_together(generation)
            membership.is_whole()
            training.train(store, generation.number == 0)
            membership.leave()
            return
        except RuntimeError:  # somebody died: the others are met again in the next generation
            membership.leave()


def microbatches(step: int, settings: Settings) -> list[Microbatch]:
    """The same in every stage: inputs, and a function of them to learn."""
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(settings.batch_size, NUM_INPUTS, generator=generator)
    mixed = inputs @ torch.linspace(-1.0, 1.0, NUM_INPUTS * NUM_INPUTS).view(NUM_INPUTS, NUM_INPUTS)
    targets = torch.sin(mixed).mean(1, keepdim=True) * 4.0
    num = settings.num_microbatches
    return list(zip(inputs.chunk(num), targets.chunk(num), strict=True))
