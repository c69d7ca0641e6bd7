"""The Trainer of Lightning: ``python -m holter.producers.examples.lightning_trainer --fault lr-burst``."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from holter.producers.examples import task
from holter.producers.integrations.lightning import HolterCallback


class Module(LightningModule):
    def __init__(self, fault: str, num_steps: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = task.make_model()

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> torch.Tensor:
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.network(inputs), targets)

    def configure_optimizers(self) -> Any:
        optimizer = task.make_optimizer(self, self.hparams["fault"])
        scheduler = task.make_scheduler(optimizer, self.hparams["num_steps"])
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    module = Module(options.fault, options.steps)
    holter = HolterCallback(project="examples", allow={"nan_guard", "rollback", "skip_range", "lr_factor"})
    trainer = Trainer(
        max_steps=options.steps, accelerator="cpu", callbacks=[holter], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(task.make_data(), task.BATCH_SIZE, shuffle=True))
    task.say_final_loss(module.network)


if __name__ == "__main__":
    main()
