"""Small transformers with and without what preflight looks for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from holter.producers.torch.preflight import Subject

VOCABULARY = 97
_LENGTH = 24


@dataclass(frozen=True)
class Shape:
    width: int = 64
    num_layers: int = 4
    num_heads: int = 4
    scaled_embedding: bool = True
    scaled_outputs: bool = True
    qk_norm: bool = True
    z_loss: float = 1e-4
    dropout: float = 0.0
    query_scale: float = 1.0
    head_scale: float = 1.0


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.c_attn = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.c_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.num_heads = shape.num_heads
        self.norms = shape.qk_norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        if self.norms:  # as nanochat does it: no module to be found
            query, key = (functional.rms_norm(each, each.shape[-1:]) for each in (query, key))
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(heads.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.c_proj = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(functional.gelu(self.c_fc(x)))


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attn, self.mlp = Attention(shape), Mlp(shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class Gpt(nn.Module):
    """The names are GPT-2's, the attention's matrices are fused."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        sigma = math.sqrt(2 / (5 * shape.width))
        self.shape = shape
        self.wte = nn.Embedding(VOCABULARY, shape.width)
        self.h = nn.ModuleList(Layer(shape) for _ in range(shape.num_layers))
        self.ln_f = nn.LayerNorm(shape.width)
        self.lm_head = nn.Linear(shape.width, VOCABULARY, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                scaled = name.endswith("c_proj.weight") and shape.scaled_outputs
                nn.init.normal_(weight, std=sigma / math.sqrt(2 * shape.num_layers) if scaled else sigma)
            if name.endswith("c_attn.weight"):
                weight.data[: 2 * shape.width] *= shape.query_scale
        self.lm_head.weight.data *= shape.head_scale

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> tuple[torch.Tensor, Any]:
        x = self.wte(ids) * (math.sqrt(self.shape.width) if self.shape.scaled_embedding else 1.0)
        for layer in self.h:
            x = layer(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        flat = logits.float().view(-1, VOCABULARY)
        loss = functional.cross_entropy(flat, targets.view(-1))
        return logits, loss + self.shape.z_loss * flat.logsumexp(-1).square().mean()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(VOCABULARY, (4, _LENGTH + 1), generator=torch.Generator().manual_seed(3))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def job(shape: Shape | None = None, **changed: Any) -> Subject:
    """A job in which nothing is wrong, of one layer unless a shape is given, with what is given changed in it."""
    torch.manual_seed(0)
    model = Gpt(shape or Shape(num_layers=1))
    decayed = [each for name, each in model.named_parameters() if each.dim() >= 2 and "wte" not in name]
    others = [each for name, each in model.named_parameters() if each.dim() < 2 or "wte" in name]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    clean = Subject(model, optimizer, scheduler, batch=batch(), clip=1.0, steps=400)
    return replace(clean, **changed)
