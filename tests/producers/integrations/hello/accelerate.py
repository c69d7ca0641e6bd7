"""A small model in a loop of Accelerate."""

import itertools
import sys

import torch
from accelerate import Accelerator
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
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, 400)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)

accelerator = Accelerator(cpu=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
epochs = (batch for _ in itertools.count() for batch in loader)
for batch, targets in itertools.islice(epochs, 400):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(batch), targets)
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
accelerator.end_training()
with torch.no_grad():
    print("final loss", float(torch.nn.functional.mse_loss(model(inputs), labels)))
