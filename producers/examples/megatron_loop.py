"""A loop of Megatron-Core: ``python -m holter.producers.examples.megatron_loop --fault lr-burst``."""

from __future__ import annotations

import itertools

import torch
from megatron.core import parallel_state
from megatron.core.optimizer import OptimizerConfig
from megatron.core.optimizer.optimizer import FP32Optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from torch import distributed
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.utils.data import DataLoader

from holter.producers.examples import task
from holter.producers.examples.cuda_as_cpu import cuda_as_cpu
from holter.producers.integrations.megatron import watch


def make_optimizer(inner: torch.optim.Optimizer) -> FP32Optimizer:
    """As ``get_megatron_optimizer`` makes it, for one process and weights of single precision."""
    optimizer = FP32Optimizer(inner, OptimizerConfig(lr=task.LEARNING_RATE, clip_grad=10.0), lambda *_: None)
    optimizer.grad_stats_parallel_group = parallel_state.get_model_parallel_group()
    optimizer.tp_group = parallel_state.get_tensor_model_parallel_group()
    return optimizer


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with cuda_as_cpu():
        distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        parallel_state.initialize_model_parallel()
        model = task.make_model().to(device)
        optimizer = make_optimizer(task.make_optimizer(model, options.fault))
        rate, steps = task.LEARNING_RATE, options.steps
        scheduler = OptimizerParamScheduler(optimizer, 0.0, rate, 0.02 * rate, 0, steps, "linear", 0, 0, 1, "constant")
        hooks = watch(model, optimizer, scheduler, project="examples", allow={"rollback", "lr_factor"})

        loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)
        endless = (batch for _ in itertools.count() for batch in loader)
        for inputs, targets in itertools.islice(endless, steps):
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()
            hooks.add_loss(loss)
            optimizer.step()
            scheduler.step(1)
            optimizer.zero_grad()
        hooks.run.finish()
        parallel_state.destroy_model_parallel()
        distributed.destroy_process_group()
    task.say_final_loss(model.cpu())


if __name__ == "__main__":
    main()
