"""A job as `holter preflight holter.producers.examples.preflight_job:job` takes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, MAX_STEPS, WARMUP = 256, 64, 2_000, 100


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)  # drawn with σ = 1: the stream begins large enough
        layers = (nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, norm_first=True, batch_first=True) for _ in "ab")
        self.layers = nn.ModuleList(layers)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden, mask = self.embedding(ids), nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the next token, with z-loss."""
    logits = model(batch[:, :-1])
    error = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    z_loss: torch.Tensor = 1e-4 * logits.logsumexp(-1).square().mean()
    return error + z_loss


def job() -> dict[str, Any]:
    torch.manual_seed(0)
    model = Model()
    decayed = [weight for name, weight in model.named_parameters() if weight.dim() > 1 and "embedding" not in name]
    others = [weight for name, weight in model.named_parameters() if weight.dim() == 1 or "embedding" in name]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=WARMUP)
    batch = torch.randint(VOCABULARY, (4, 33))
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler, "batch": batch, "loss": loss,
            "clip": 1.0, "steps": MAX_STEPS}  # fmt: skip
