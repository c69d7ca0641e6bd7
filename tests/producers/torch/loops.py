"""Small training runs for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from holter import producers
from holter.producers import Run
from holter.producers.torch import Guard
from tests.producers.watch import KEYRING, FakeWatch

ALL = ("nan_guard", "lr_factor", "momentum_reset", "rollback", "skip_range", "checkpoint_now", "stop", "clip_adjust")


def make_run(watch: FakeWatch | None) -> Run:
    if watch is None:
        return producers.init("tests", "run", mode="disabled")
    return producers.init(watch.project, watch.run, bus=watch.bus, keyring=KEYRING, environ={})


def make_model() -> torch.nn.Module:
    torch.default_generator.manual_seed(0)  # only this one: for every device, absent ones too, the stack is formatted
    return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))


def make_loader(num_batches: int = 10, shuffle: bool = True) -> DataLoader[Any]:
    inputs = torch.randn(num_batches * 8, 4, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8, shuffle=shuffle)


class Training:
    """A model in a guarded loop that a test can drive step by step."""

    def __init__(
        self,
        folder: Path,
        watch: FakeWatch | None = None,
        *,
        until: int | None = 100,
        loader: Any = None,
        optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
        scheduled: bool = True,
        sample_ids: Any = None,
        **settings: Any,
    ) -> None:
        self.model = make_model()
        self.optimizer = optimizer(self.model.parameters(), lr=0.01)  # type: ignore[call-arg]
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 100) if scheduled else None
        self.run = make_run(watch)
        self.losses: dict[int, float] = {}
        self.seen: list[torch.Tensor] = []
        settings = {"checkpoint_every": 5, "allow": ALL, **settings}
        self.guard = Guard(
            self.run, self.model, self.optimizer, scheduler=self.scheduler, checkpoints=folder, **settings
        )
        loader = make_loader() if loader is None else loader
        self._batches = self.guard.batches(loader, until=until, sample_ids=sample_ids)

    def step(self) -> bool:
        """One optimizer step; False when the loop is over."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        inputs, targets = batch
        self.seen.append(inputs.clone())
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        self.guard.backward(loss)
        self.guard.step()
        self.losses[self.guard.last_step] = loss.item()
        return True

    def steps(self, number: int) -> None:
        """Steps slowly enough, as real ones are, for every checkpoint to be written."""
        for _ in range(number):
            assert self.step()
            if self.guard._recovery._saver is not None:
                self.guard._recovery._saver.wait()

    def weights(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]
