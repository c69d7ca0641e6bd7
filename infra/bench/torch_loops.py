"""The trainings of torch whose step is measured: the same small GPT, clipped at the same norm, by each library."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from holter.infra.bench.trained import Trained
from holter.infra.demo.model import Gpt, ModelSettings
from holter.producers.torch import Guard, Hooks

SETTINGS = ModelSettings(width=160, num_layers=4)
_CLIP = 1.0
SIZES = (4, 16)
"""Samples a batch, to try what a step takes."""
cpu_seconds = time.thread_time


class TimedModel(nn.Module):
    """Returns its loss; a step begins with its forward pass."""

    def __init__(self, begin_step: Callable[[], None]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = Gpt(SETTINGS)
        self._begin_step = begin_step

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self._begin_step()
        return {"loss": self.model(tokens, labels)}


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def make_loader(trained: Trained) -> DataLoader[Any]:
    tokens = torch.randint(SETTINGS.vocabulary_size, (trained.batch_size, SETTINGS.context + 1))
    rows = [{"tokens": row, "labels": torch.tensor(1.0)} for row in tokens] * trained.num_steps
    return DataLoader(rows, trained.batch_size)  # type: ignore[arg-type]


def guard(trained: Trained) -> None:
    model = TimedModel(trained.begin_step)
    optimizer = make_optimizer(model)
    if trained.run is None:
        _own_steps(model, optimizer, make_loader(trained), None)
        return
    worn = Guard(model=model, optimizer=optimizer, clip=_CLIP, **trained.worn)
    for batch in worn.batches(make_loader(trained)):
        worn.backward(model(**batch)["loss"])
        worn.step()


def hooks(trained: Trained) -> None:
    model = TimedModel(trained.begin_step)
    _hooked_steps(trained, model, model)


def hooks_unclipped(trained: Trained) -> None:
    """The loop does not clip: the gradient norm is one more pass over the gradients."""
    model = TimedModel(trained.begin_step)
    _hooked_steps(trained, model, model, clips=False)


def ddp(trained: Trained) -> None:
    model = TimedModel(trained.begin_step)
    _hooked_steps(trained, model, DistributedDataParallel(model))


def fsdp2(trained: Trained) -> None:
    model = TimedModel(trained.begin_step)
    fully_shard(model, mesh=init_device_mesh("cpu", (distributed.get_world_size(),)))
    _hooked_steps(trained, model, model)


def _hooked_steps(trained: Trained, model: nn.Module, wrapped: nn.Module, clips: bool = True) -> None:
    optimizer = make_optimizer(model)
    worn = None if trained.run is None else Hooks(model=wrapped, optimizer=optimizer, **trained.worn)
    _own_steps(wrapped, optimizer, make_loader(trained), worn, clips)


def _own_steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any], worn: Hooks | None, clips: bool = True
) -> None:
    for batch in loader:
        loss = model(**batch)["loss"]
        if worn is not None:
            worn.add_loss(loss)
        loss.backward()
        if clips:
            norm = nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            if worn is not None:
                worn.see_gradients(norm)
        optimizer.step()
        optimizer.zero_grad()


def accelerate(trained: Trained) -> None:
    from accelerate import Accelerator

    from holter.producers.integrations.accelerate import watch

    model = TimedModel(trained.begin_step)
    accelerator = Accelerator(cpu=True)
    wrapped, optimizer, loader = accelerator.prepare(model, make_optimizer(model), make_loader(trained))
    if trained.run is not None:
        watch(accelerator, wrapped, optimizer, **trained.worn)
    for batch in loader:
        accelerator.backward(wrapped(**batch)["loss"])
        accelerator.clip_grad_norm_(wrapped.parameters(), _CLIP)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.end_training()


def lightning(trained: Trained) -> None:
    from lightning.pytorch import LightningModule, Trainer

    from holter.producers.integrations.lightning import HolterCallback

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.timed = TimedModel(trained.begin_step)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.timed(**batch)["loss"]  # type: ignore[no-any-return]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return make_optimizer(self)

    callbacks = [] if trained.run is None else [HolterCallback(**trained.worn)]
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    Trainer(
        max_epochs=1, accelerator="cpu", gradient_clip_val=_CLIP, default_root_dir=trained.folder, callbacks=callbacks,
        **quiet,
    ).fit(Module(), make_loader(trained))  # fmt: skip


def huggingface(trained: Trained) -> None:
    from transformers import Trainer, TrainingArguments

    from holter.producers.integrations.huggingface import watch

    arguments = TrainingArguments(
        str(trained.folder), max_steps=trained.num_steps, per_device_train_batch_size=trained.batch_size,
        max_grad_norm=_CLIP, report_to="none", use_cpu=True, save_strategy="no", logging_strategy="no",
        disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    model = TimedModel(trained.begin_step)
    optimizer = make_optimizer(model)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    dataset = make_loader(trained).dataset
    trainer = Trainer(model, arguments, train_dataset=dataset, optimizers=(optimizer, rates))
    if trained.run is not None:
        watch(trainer, **trained.worn)
    trainer.train()


def seconds_of(batch_size: int) -> float:
    """Of this thread's CPU time, of the fastest of a few steps: forward, backward and the optimizer's."""
    model = TimedModel(lambda: None)
    optimizer = make_optimizer(model)
    batch = next(iter(make_loader(Trained(lambda: None, 1, batch_size, 0, Path()))))
    return min(_step_seconds(model, optimizer, batch) for _ in range(6))


def _step_seconds(model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> float:
    begun = time.thread_time()
    model(**batch)["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.thread_time() - begun
