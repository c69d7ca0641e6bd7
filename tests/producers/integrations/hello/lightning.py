"""A small model in the Trainer of Lightning."""

import logging
import sys
import tempfile
import warnings

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from holter.producers.examples.lr_burst import LrBurst

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(3) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), *layers, torch.nn.Linear(64, 1))

    def training_step(self, batch, batch_idx):  # type: ignore[no-untyped-def]
        inputs, labels = batch
        return torch.nn.functional.mse_loss(self.layers(inputs), labels)

    def configure_optimizers(self):  # type: ignore[no-untyped-def]
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        if "lr-burst" in sys.argv:
            LrBurst(at=200).attach(optimizer)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, 400)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


torch.manual_seed(0)
inputs = torch.randn(1024, 8)
labels = torch.tanh(inputs @ torch.randn(8, 4)).sum(1, keepdim=True)
model = Model()
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
trainer = Trainer(
    max_steps=400, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, default_root_dir=tempfile.mkdtemp(),
)  # fmt: skip
trainer.fit(model, loader)
with torch.no_grad():
    print("final loss", float(model.training_step((inputs, labels), 0)))
