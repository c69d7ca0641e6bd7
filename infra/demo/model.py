"""A small GPT, after Karpathy's nanoGPT: learned positions, pre-norm blocks, tied embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class ModelSettings:
    vocabulary_size: int = 128
    context: int = 64
    width: int = 64
    num_layers: int = 3
    num_heads: int = 4


class Attention(nn.Module):
    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.num_heads = settings.num_heads
        self.qkv = nn.Linear(settings.width, 3 * settings.width)
        self.out = nn.Linear(settings.width, settings.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return result


class Block(nn.Module):
    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        width = settings.width
        self.attention = Attention(settings)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        mixed: Tensor = x + self.mlp(self.norm_2(x))
        return mixed


class Gpt(nn.Module):
    """Predicts each next token; ``forward`` gives the mean cross entropy in nats."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.tokens = nn.Embedding(settings.vocabulary_size, settings.width)
        self.positions = nn.Parameter(torch.zeros(settings.context, settings.width))
        self.blocks = nn.Sequential(*(Block(settings) for _ in range(settings.num_layers)))
        self.norm = nn.LayerNorm(settings.width)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """``tokens`` is (batch, context + 1); ``weights`` (batch,) scales each sample's loss."""
        x = self.tokens(tokens[:, :-1]) + self.positions
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.T
        losses = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        return (losses.mean(dim=1) * weights).mean()
