"""What Holter adds to a step of Transformers, Lightning and Accelerate: the same short training with and without it.

A step is from one forward pass to the next, so that whatever the framework does in between counts. Each pair trains
twice from the same weights, in changing order; the first steps, which warm up, are left out. Checkpoints are saved.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from holter.infra.bench.figures import Figure, mean_with_error
from holter.infra.bench.guard_cost import fitting_batch_size, make_training
from holter.producers import Run, init

NUM_STEPS, _NUM_WARM_UP = 60, 10
_CHECKPOINT_EVERY = 50
_LAYOUT: dict[str, Any] = {"checkpoint_every": _CHECKPOINT_EVERY}


class TimedModel(nn.Module):
    """Returns its loss; remembers when each forward pass began, by the clock and in CPU time of this thread."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.begun: list[tuple[float, float]] = []

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.begun.append((time.perf_counter(), time.thread_time()))
        return {"loss": self.model(tokens, labels)}

    def step_seconds(self) -> tuple[float, float]:
        """The means of both over the steps after the warm-up."""
        first, last = self.begun[_NUM_WARM_UP], self.begun[-1]
        num_steps = len(self.begun) - 1 - _NUM_WARM_UP
        return (last[0] - first[0]) / num_steps, (last[1] - first[1]) / num_steps


Training = Callable[[TimedModel, torch.optim.Optimizer, "DataLoader[Any]", "Run | None", Path], None]


def accelerate_training(
    model: TimedModel, optimizer: torch.optim.Optimizer, loader: DataLoader[Any], run: Run | None, folder: Path
) -> None:
    from accelerate import Accelerator

    from holter.producers.integrations.accelerate import watch

    accelerator = Accelerator(cpu=True)
    wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if run is not None:
        watch(accelerator, wrapped, optimizer, run=run, checkpoints=folder, **_LAYOUT)
    for batch in loader:
        accelerator.backward(wrapped(**batch)["loss"])
        accelerator.clip_grad_norm_(wrapped.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.end_training()


def lightning_training(
    model: TimedModel, optimizer: torch.optim.Optimizer, loader: DataLoader[Any], run: Run | None, folder: Path
) -> None:
    from lightning.pytorch import LightningModule, Trainer

    from holter.producers.integrations.lightning import HolterCallback

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.timed = model

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.timed(**batch)["loss"]  # type: ignore[no-any-return]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer

    callbacks = [] if run is None else [HolterCallback(run=run, checkpoints=folder, **_LAYOUT)]
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    Trainer(
        max_epochs=1, accelerator="cpu", gradient_clip_val=1.0, default_root_dir=folder, callbacks=callbacks, **quiet
    ).fit(Module(), loader)


def huggingface_training(
    model: TimedModel, optimizer: torch.optim.Optimizer, loader: DataLoader[Any], run: Run | None, folder: Path
) -> None:
    from transformers import Trainer, TrainingArguments

    from holter.producers.integrations.huggingface import watch

    arguments = TrainingArguments(
        str(folder), max_steps=NUM_STEPS, per_device_train_batch_size=loader.batch_size, report_to="none", use_cpu=True,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    trainer = Trainer(model, arguments, train_dataset=loader.dataset, optimizers=(optimizer, rates))
    if run is not None:
        watch(trainer, run=run, checkpoints=folder, **_LAYOUT)
    trainer.train()


TRAININGS: dict[str, Training] = {
    "huggingface": huggingface_training,
    "lightning": lightning_training,
    "accelerate": accelerate_training,
}


def measure(environ: dict[str, str], num_pairs: int) -> list[Figure]:
    """For each framework the mean over pairs of (with - without) / without, with a 95 % interval."""
    torch.set_num_threads(1)
    batch_size = fitting_batch_size()
    return [_figure(name, batch_size, environ, num_pairs) for name in TRAININGS]


def _figure(name: str, batch_size: int, environ: dict[str, str], num_pairs: int) -> Figure:
    shares, of_thread, steps = [], [], []
    for number in range(num_pairs + 1):
        seconds = {worn: _step_seconds(name, batch_size, environ if worn else None) for worn in _order(number)}
        if number:  # the first imports and warms up
            shares.append(_percent_more(seconds[True][0], seconds[False][0]))
            of_thread.append(_percent_more(seconds[True][1], seconds[False][1]))
            steps.append(seconds[False][0])
    (mean, error), (cpu, cpu_error) = mean_with_error(shares), mean_with_error(of_thread)
    note = (
        f"± {error:.2f} (95 %), {1000 * sum(steps) / len(steps):.0f} ms steps, {num_pairs} pairs of {NUM_STEPS}; "
        f"CPU of the training thread {cpu:.2f} ± {cpu_error:.2f} %"
    )
    return Figure(f"{name}_step_overhead_percent", mean, "%", 1.0, note=note)


def _percent_more(worn: float, plain: float) -> float:
    return 100.0 * (worn - plain) / plain


def _order(number: int) -> tuple[bool, bool]:
    return (False, True) if number % 2 else (True, False)


def _step_seconds(name: str, batch_size: int, environ: dict[str, str] | None) -> tuple[float, float]:
    plain, optimizer, batches = make_training(batch_size)
    model = TimedModel(plain)
    tokens, labels = next(batches)
    rows = [
        {"tokens": row, "labels": label} for _ in range(NUM_STEPS) for row, label in zip(tokens, labels, strict=True)
    ]
    loader: DataLoader[Any] = DataLoader(rows, batch_size)  # type: ignore[arg-type]
    run = None if environ is None else init("bench", f"{name}-{time.time_ns()}", environ=environ)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        TRAININGS[name](model, optimizer, loader, run, Path(folder))
        if run is not None:
            run.finish()
    return model.step_seconds()
