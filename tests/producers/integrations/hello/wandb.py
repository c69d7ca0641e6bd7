"""A small model, logged to Weights & Biases."""

import itertools
import sys

import torch
import wandb
from torch.utils.data import DataLoader, TensorDataset

from holter.producers.examples.lr_burst import LrBurst

torch.manual_seed(0)
inputs = torch.randn(1024, 8)
labels = torch.tanh(inputs @ torch.randn(8, 4)).sum(1, keepdim=True)
layers = [layer for _ in range(3) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), *layers, torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
if "lr-burst" in sys.argv:
    LrBurst(at=200).attach(optimizer)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
tracked = wandb.init(project="hello", mode="offline")
epochs = (batch for _ in itertools.count() for batch in loader)
for step, (batch, targets) in enumerate(itertools.islice(epochs, 300), start=1):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(batch), targets)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    tracked.log({"loss": loss.item(), "grad_norm": norm.item()}, step=step)
tracked.finish()
