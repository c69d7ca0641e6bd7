"""What the examples train: a small network on a function of eight numbers, in a few seconds on one core."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

from holter.producers.examples.lr_burst import LrBurst

BURST_AT = 200
LEARNING_RATE = 3e-3
BATCH_SIZE = 32


def read_arguments(about: str | None, arguments: list[str] | None) -> argparse.Namespace:
    """``fault`` and ``steps``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--fault", choices=("none", "lr-burst"), default="none", help="hurt the run at step 200")
    parser.add_argument("--steps", type=int, default=400, help="optimizer steps to execute")
    return parser.parse_args(arguments)


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width in (8, 64, 64, 64):
        layers += [nn.Linear(width, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 1))


def make_data() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(1024, 8, generator=generator)
    return TensorDataset(inputs, torch.tanh(inputs @ torch.randn(8, 4, generator=generator)).sum(1, keepdim=True))


def make_optimizer(model: nn.Module, fault: str) -> torch.optim.AdamW:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    if fault == "lr-burst":
        LrBurst(BURST_AT).attach(optimizer)
    return optimizer


def make_scheduler(optimizer: torch.optim.Optimizer, num_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, num_steps)


@torch.no_grad()
def say_final_loss(model: nn.Module, say: bool = True) -> None:
    """Over all data; every rank of a sharded model has to call it."""
    inputs, targets = make_data().tensors
    loss = nn.functional.mse_loss(model(inputs), targets).item()
    if say:
        print(f"final loss {loss:.4f}")
