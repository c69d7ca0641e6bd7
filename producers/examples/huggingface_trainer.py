"""The Trainer of Transformers: ``python -m holter.producers.examples.huggingface_trainer --fault lr-burst``."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Trainer, TrainingArguments

from holter.producers.examples import task
from holter.producers.integrations.huggingface import watch


class Model(torch.nn.Module):
    """Returns its loss, as models of Transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.network = task.make_model()

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.mse_loss(self.network(inputs), labels)}


def collate(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {"inputs": torch.stack([row[0] for row in rows]), "labels": torch.stack([row[1] for row in rows])}


def main(arguments: list[str] | None = None) -> None:
    options = task.read_arguments(__doc__, arguments)
    model = Model()
    optimizer = task.make_optimizer(model, options.fault)
    settings: dict[str, Any] = {"use_cpu": True, "dataloader_pin_memory": False, "disable_tqdm": True}
    trainer = Trainer(
        model,
        TrainingArguments(
            "checkpoints", max_steps=options.steps, per_device_train_batch_size=task.BATCH_SIZE,
            save_strategy="no", logging_strategy="no", report_to="none", **settings,
        ),
        data_collator=collate,
        train_dataset=task.make_data(),
        optimizers=(optimizer, task.make_scheduler(optimizer, options.steps)),
    )  # fmt: skip
    watch(trainer, project="examples", allow={"nan_guard", "rollback", "skip_range", "lr_factor"})
    trainer.train()
    task.say_final_loss(model.network)


if __name__ == "__main__":
    main()
