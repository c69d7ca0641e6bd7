"""A small model in the Trainer of Transformers."""

import sys
import tempfile

import torch
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments

from holter.producers.examples.lr_burst import LrBurst


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(3) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), *layers, torch.nn.Linear(64, 1))

    def forward(self, inputs, labels):  # type: ignore[no-untyped-def]
        return {"loss": torch.nn.functional.mse_loss(self.layers(inputs), labels)}


def collate(rows):  # type: ignore[no-untyped-def]
    return {"inputs": torch.stack([row[0] for row in rows]), "labels": torch.stack([row[1] for row in rows])}


torch.manual_seed(0)
inputs = torch.randn(1024, 8)
labels = torch.tanh(inputs @ torch.randn(8, 4)).sum(1, keepdim=True)
model = Model()
arguments = TrainingArguments(
    tempfile.mkdtemp(), max_steps=400, per_device_train_batch_size=32, learning_rate=3e-3, report_to="none",
    save_strategy="no", disable_tqdm=True, use_cpu=True, logging_strategy="no", dataloader_pin_memory=False,
)  # fmt: skip
trainer = Trainer(model, arguments, data_collator=collate, train_dataset=TensorDataset(inputs, labels))
if "lr-burst" in sys.argv:
    LrBurst(at=200).attach(trainer.create_optimizer())
trainer.train()
with torch.no_grad():
    print("final loss", float(model(inputs, labels)["loss"]))
