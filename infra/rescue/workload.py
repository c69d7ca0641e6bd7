"""What the runs train: a small GPT on text and a small convolutional net on the labels of a fixed teacher."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR

from holter.infra.demo.corpus import Batches, SeededBatches, read_corpus
from holter.infra.demo.model import Block, Gpt, ModelSettings
from holter.infra.demo.train import schedule

WorkloadName = Literal["gpt", "gpt-long-memory", "gpt-warmup", "gpt-fp16", "convnet", "convnet-2-ranks"]
WORKLOADS: tuple[WorkloadName, ...] = get_args(WorkloadName)

Batch = Any
Hurt = Callable[[int, Batch], Batch]

_GPT = ModelSettings(context=32, width=32, num_layers=2)
_DEEP_GPT = ModelSettings(context=32, width=32, num_layers=4)
_BATCH_SIZE = 16
_NUM_HELD_OUT = 48
_IMAGE_SIZE, _NUM_CLASSES, _NUM_IMAGES = 12, 10, 64


@dataclass(frozen=True)
class Recipe:
    """How a workload is optimised. The rate rises for ``warmup_steps`` and falls along a cosine to a tenth.

    With ``is_post_norm`` the blocks are those of the first transformers, which learn nothing without a warm-up
    (Xiong et al. 2020, 2002.04745).
    """

    learning_rate: float = 2e-3
    beta2: float = 0.95
    warmup_steps: int = 30
    scales_loss: bool = False
    is_post_norm: bool = False
    num_ranks: int = 1


RECIPES: dict[WorkloadName, Recipe] = {
    "gpt": Recipe(),
    "gpt-long-memory": Recipe(beta2=0.999),
    "gpt-warmup": Recipe(learning_rate=4e-2, warmup_steps=300, is_post_norm=True),
    "gpt-fp16": Recipe(scales_loss=True),
    "convnet": Recipe(learning_rate=0.05),
    "convnet-2-ranks": Recipe(learning_rate=0.05, num_ranks=2),
}


@dataclass
class Setup:
    """All that a training loop needs. ``loss`` is the mean over a batch, in nats."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: LambdaLR
    scaler: torch.amp.GradScaler | None
    loader: Any
    loss: Callable[[Batch], Tensor]
    held_out: Callable[[], float]

    @property
    def batch_index(self) -> int:
        """Of the batch that was read last."""
        return int(self.loader.state_dict()["next"]) - 1


def build(name: WorkloadName, seed: int, num_steps: int, hurt: Hurt, rank: int = 0) -> Setup:
    """Args:
    num_steps: over which the learning rate falls.
    hurt: changes a batch by its index.
    rank: has data of its own.
    """
    torch.manual_seed(seed)
    recipe = RECIPES[name]
    make = _gpt if name.startswith("gpt") else _convnet
    return make(recipe, seed + 1000 * rank, num_steps, hurt)


def _gpt(recipe: Recipe, seed: int, num_steps: int, hurt: Hurt) -> Setup:
    model = _post_norm(Gpt(_DEEP_GPT)) if recipe.is_post_norm else Gpt(_GPT)
    loader = Batches(_corpus(), seed, _BATCH_SIZE, _GPT.context, hurt)
    betas = (0.9, recipe.beta2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=betas, weight_decay=0.1)
    return Setup(
        model,
        optimizer,
        LambdaLR(optimizer, schedule(num_steps, recipe.warmup_steps)),
        _scaler(model) if recipe.scales_loss else None,
        loader,
        lambda batch: model(*batch),
        _held_out_loss(model, loader.held_out(_NUM_HELD_OUT), lambda batch: model(*batch)),
    )


def _convnet(recipe: Recipe, seed: int, num_steps: int, hurt: Hurt) -> Setup:
    model = _net(width=16)
    trained = model if recipe.num_ranks == 1 else DistributedDataParallel(model)
    loader = TeacherBatches(seed, hurt)
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.learning_rate, momentum=0.9, weight_decay=1e-4)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(trained(batch[0]), batch[1])

    def own_loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    return Setup(
        trained,
        optimizer,
        LambdaLR(optimizer, schedule(num_steps, recipe.warmup_steps)),
        None,
        loader,
        loss,
        _held_out_loss(model, loader.held_out(_NUM_HELD_OUT), own_loss),
    )


class TeacherBatches(SeededBatches):
    """Noise images, labelled by a net that is the same for all seeds."""

    def draw(self, seed: int) -> Batch:
        return _labelled(seed)

    def held_out(self, count: int) -> list[Batch]:
        return [_labelled(-1 - index) for index in range(count)]


@torch.no_grad()
def _labelled(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed & 0x7FFFFFFF)
    images = torch.randn(_NUM_IMAGES, 1, _IMAGE_SIZE, _IMAGE_SIZE, generator=generator)
    return images, _teacher()(images).argmax(dim=1)


@functools.cache
def _teacher() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        teacher = _net(width=8)
        for weight in teacher.parameters():
            weight.requires_grad_(False)
            weight.mul_(2.0)
    return teacher


def _net(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * (_IMAGE_SIZE // 4) ** 2, _NUM_CLASSES),
    )


@functools.cache
def _corpus() -> Tensor:
    return read_corpus()


class PostNormBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_1(x + self.attention(x))
        normed: Tensor = self.norm_2(x + self.mlp(x))
        return normed


def _post_norm(model: Gpt) -> Gpt:
    for block in model.blocks:
        block.__class__ = PostNormBlock
    return model


def _scaler(model: nn.Module) -> torch.amp.GradScaler:
    """A loss scaler, and gradients in half precision as on a device: small ones vanish, large ones overflow."""
    for weight in model.parameters():
        weight.register_hook(lambda gradient: gradient.half().float())  # type: ignore[no-untyped-call]
    return torch.amp.GradScaler("cpu")


def _held_out_loss(model: nn.Module, batches: list[Batch], loss: Callable[[Batch], Tensor]) -> Callable[[], float]:
    """The mean over the same batches whenever it is called."""

    @torch.no_grad()
    def mean() -> float:
        model.eval()
        losses = [float(loss(batch)) for batch in batches]
        model.train()
        return sum(losses) / len(losses)

    return mean
