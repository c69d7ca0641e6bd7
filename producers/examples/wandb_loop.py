"""A loop that logs to W&B alone, and is heard: ``python -m holter.producers.examples.wandb_loop --fault lr-burst``."""

from __future__ import annotations

import itertools

import torch
import wandb
from torch.utils.data import DataLoader

from holter import producers
from holter.producers.examples import task
from holter.producers.integrations import wandb as holter_wandb


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    model = task.make_model()
    optimizer = task.make_optimizer(model, options.fault)
    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)

    run = producers.init(project="examples", config=vars(options))
    tracked = wandb.init(project="examples", config=vars(options), mode="offline")
    holter_wandb.watch(tracked, run)
    endless = (batch for _ in itertools.count() for batch in loader)
    for step, (inputs, targets) in enumerate(itertools.islice(endless, options.steps), start=1):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        tracked.log({"train/loss": loss.item(), "grad_norm": norm.item()}, step=step)
    run.finish()
    tracked.finish()
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
