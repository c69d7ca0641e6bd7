"""A loop of DeepSpeed: ``python -m holter.producers.examples.deepspeed_loop --fault lr-burst``."""

from __future__ import annotations

import itertools
import os

import deepspeed
import torch
from torch import distributed
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.utils.data import DataLoader

from holter.producers.examples import task
from holter.producers.integrations.deepspeed import watch


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    if "RANK" not in os.environ and not distributed.is_initialized():  # started by neither deepspeed nor torchrun
        distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        os.environ["LOCAL_RANK"] = "0"
    if not torch.cuda.is_available():  # else it compiles a kernel for ranks on one host first
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    model = task.make_model()
    optimizer = task.make_optimizer(model, options.fault)
    settings = {"train_micro_batch_size_per_gpu": task.BATCH_SIZE, "gradient_clipping": 10.0, "steps_per_print": 100}
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=optimizer, lr_scheduler=task.make_scheduler(optimizer, options.steps), config=settings
    )
    hooks = watch(engine, project="examples", allow={"nan_guard", "rollback", "skip_range", "lr_factor"})

    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)
    endless = (batch for _ in itertools.count() for batch in loader)
    for inputs, targets in itertools.islice(endless, options.steps):
        loss = torch.nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
    hooks.run.finish()
    engine.destroy()
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
