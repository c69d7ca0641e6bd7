"""A loop that keeps its own ``optimizer.step()``: ``python -m holter.producers.examples.own_loop --fault lr-burst``."""

from __future__ import annotations

import itertools

import torch
from torch.utils.data import DataLoader

from holter import producers
from holter.producers.examples import task
from holter.producers.torch import Hooks


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    model = task.make_model()
    optimizer = task.make_optimizer(model, options.fault)
    scheduler = task.make_scheduler(optimizer, options.steps)
    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)

    run = producers.init(project="examples", config=vars(options))
    hooks = Hooks(
        run, model, optimizer, scheduler=scheduler, allow={"nan_guard", "rollback", "skip_range", "lr_factor"}
    )
    endless = (batch for _ in itertools.count() for batch in loader)
    for inputs, targets in itertools.islice(endless, options.steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        hooks.add_loss(loss)
        loss.backward()
        hooks.see_gradients(torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    run.finish()
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
