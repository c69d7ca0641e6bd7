"""Any clipper and any optimizer by its name: ``python -m holter.producers.examples.stabilised --clip zclip``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from holter import producers
from holter.producers.examples import task
from holter.producers.torch import Guard, clip, optim

OPTIMIZERS: Mapping[str, Mapping[str, Any]] = {
    "clippy": {},
    "clippy_adagrad": {"lr": 1e-2},
    "spam": {"interval": 200, "warmup": 20},  # so that a run this short sees resets
    "stable_spam": {},
    "msign": {"every": 60},  # and restored matrices
    "skip_step": {},
}


def read_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clip", choices=list(clip.CLIPPERS), default="globalgc")
    parser.add_argument("--optimizer", choices=["adamw", *OPTIMIZERS], default="adamw")
    parser.add_argument("--steps", type=int, default=400, help="optimizer steps to execute")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = read_arguments(arguments)
    model = task.make_model()
    last_layer = {"exclude": model[-1].parameters()} if options.clip == "agc" else {}
    clipper = clip.make(options.clip, **last_layer)
    if options.optimizer == "adamw":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=task.LEARNING_RATE)
    else:
        chosen = {"lr": task.LEARNING_RATE, **OPTIMIZERS[options.optimizer]}
        optimizer = optim.make(options.optimizer, model.parameters(), **chosen)
    loader = DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True)

    run = producers.init(project="examples", config=vars(options))
    guard = Guard(run, model, optimizer, clip=clipper)
    for inputs, targets in guard.batches(loader, until=options.steps):
        guard.backward(torch.nn.functional.mse_loss(model(inputs), targets))
        guard.step()
    run.finish()
    print(f"{guard.last_step} steps with {options.clip} and {options.optimizer}")
    task.say_final_loss(model)


if __name__ == "__main__":
    main()
