"""A loop of Accelerate: ``python -m holter.producers.examples.accelerate_loop --fault lr-burst``."""

from __future__ import annotations

import itertools

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from holter.producers.examples import task
from holter.producers.integrations.accelerate import watch


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    model = task.make_model()
    optimizer = task.make_optimizer(model, options.fault)
    scheduler = task.make_scheduler(optimizer, options.steps)
    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)

    accelerator = Accelerator(cpu=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    watch(
        accelerator, model, optimizer, scheduler, project="examples", config=vars(options),
        allow={"nan_guard", "rollback", "skip_range", "lr_factor"},
    )  # fmt: skip
    endless = (batch for _ in itertools.count() for batch in loader)
    for inputs, targets in itertools.islice(endless, options.steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.end_training()
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
