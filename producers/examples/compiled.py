"""A model under ``torch.compile``: ``python -m holter.producers.examples.compiled --fault lr-burst``."""

from __future__ import annotations

import itertools

import torch
from torch.utils.data import DataLoader

from holter import producers
from holter.producers.examples import task
from holter.producers.torch import Guard


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    model = task.make_model()
    optimizer = task.make_optimizer(model, options.fault)
    scheduler = task.make_scheduler(optimizer, options.steps)
    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)

    run = producers.init(project="examples", config=vars(options))
    guard = Guard(
        run, model, optimizer, scheduler=scheduler, allow={"nan_guard", "rollback", "skip_range", "lr_factor"}
    )
    fast = torch.compile(model, backend="aot_eager")  # the default backend needs a C++ compiler at hand
    batches = guard.batches(loader, until=options.steps)
    for inputs, targets in itertools.islice(batches, options.steps):
        loss = torch.nn.functional.mse_loss(fast(inputs), targets)
        guard.backward(loss)
        guard.step()
    run.finish()
    print(f"{guard.last_step} steps")
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
