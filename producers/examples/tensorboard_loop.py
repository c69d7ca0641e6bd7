"""A guarded loop beside TensorBoard: ``python -m holter.producers.examples.tensorboard_loop --fault lr-burst``.

``tensorboard --logdir holter-tensorboard`` then shows what was seen and done.
"""

from __future__ import annotations

import itertools

import torch
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from holter import producers
from holter.producers.examples import task
from holter.producers.integrations import tensorboard as holter_tensorboard
from holter.producers.torch import Guard


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    model = task.make_model()
    optimizer = task.make_optimizer(model, options.fault)
    scheduler = task.make_scheduler(optimizer, options.steps)
    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)

    run = producers.init(project="examples", config=vars(options))
    writer = SummaryWriter("holter-tensorboard")
    holter_tensorboard.watch(writer, run)
    guard = Guard(
        run, model, optimizer, scheduler=scheduler, allow={"nan_guard", "rollback", "skip_range", "lr_factor"}
    )
    for inputs, targets in itertools.islice(guard.batches(loader, until=options.steps), options.steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        guard.backward(loss)
        guard.step()
        writer.add_scalar("loss", loss.item(), guard.last_step)
    run.finish()
    writer.close()
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
