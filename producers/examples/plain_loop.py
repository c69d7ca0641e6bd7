"""A plain PyTorch loop with Holter in it: ``python -m holter.producers.examples.plain_loop``."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from holter import producers
from holter.producers.torch import Guard

MAX_STEPS = 300


def make_loader() -> DataLoader[tuple[torch.Tensor, ...]]:
    inputs = torch.randn(4096, 32)
    targets = torch.sin(inputs @ torch.randn(32, 1))
    return DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True)


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.GELU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, MAX_STEPS)

    run = producers.init(project="examples", config={"lr": 3e-3, "batch_size": 64})
    guard = Guard(
        run, model, optimizer, scheduler=scheduler, allow={"nan_guard", "rollback", "skip_range", "lr_factor"}
    )
    for inputs, targets in guard.batches(make_loader(), until=MAX_STEPS):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        guard.backward(loss)
        guard.step()
    run.finish()
    print(f"{guard.last_step} steps, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
