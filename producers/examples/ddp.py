"""Data parallel: ``torchrun --nproc-per-node 2 -m holter.producers.examples.ddp --fault lr-burst``.

Every rank makes a run and a guard; what Holter does, all of them do at the same step.
"""

from __future__ import annotations

import itertools

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from holter import producers
from holter.producers.examples import task
from holter.producers.torch import Guard


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    distributed.init_process_group("gloo")
    model = DistributedDataParallel(task.make_model())
    optimizer = task.make_optimizer(model, options.fault)
    scheduler = task.make_scheduler(optimizer, options.steps)
    data = task.make_data()
    loader = DataLoader(data, task.BATCH_SIZE, sampler=DistributedSampler(data))

    run = producers.init(project="examples", run=f"ddp-{options.fault}", config=vars(options))
    guard = Guard(
        run, model, optimizer, scheduler=scheduler, allow={"nan_guard", "rollback", "skip_range", "lr_factor"}
    )
    batches = guard.batches(loader, until=options.steps)
    for inputs, targets in itertools.islice(batches, options.steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        guard.backward(loss)
        guard.step()
    run.finish()
    task.say_final_loss(model, say=distributed.get_rank() == 0)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
