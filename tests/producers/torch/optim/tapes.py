"""Small parameters and fixed gradients."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from holter.producers.torch.optim import make
from tests.producers.torch.clip.gradients import give, parameters, tensors_of

NAMES: dict[str, dict[str, Any]] = {
    "clippy": {"absolute": 1e-4},
    "clippy_adagrad": {"absolute": 1e-4},
    "spam": {"interval": 6, "warmup": 3, "grace": 2, "threshold": 4.0},
    "spam_sparse": {"interval": 6, "warmup": 3, "grace": 2, "density": 0.3, "counter": "restarted"},
    "stable_spam": {"interval": 6, "weight_decay": 0.1},
    "msign": {"every": 4},
    "msign_newton_schulz": {"every": 4, "form": "newton_schulz"},
    "skip_step": {"window": 8, "max_score": 3.0},
}
"""Settings under which every part acts within a dozen steps."""


def made(name: str, weights: Sequence[torch.nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    kind = next(
        known
        for known in ("clippy_adagrad", "clippy", "stable_spam", "spam", "msign", "skip_step")
        if name.startswith(known)
    )
    return make(kind, list(weights), **{"lr": 0.01, **NAMES.get(name, {}), **options})


def train(optimizer: torch.optim.Optimizer, weights: Sequence[torch.nn.Parameter], steps: Sequence[int]) -> None:
    for step in steps:
        give(weights, step)
        optimizer.step()


def values(optimizer: torch.optim.Optimizer, weights: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Weights and whatever the optimizer remembers, copied."""
    return [each.detach().clone() for each in [*weights, *tensors_of(dict(optimizer.state_dict()["state"]))]]


def copied(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return copy.deepcopy(optimizer.state_dict())


def same(here: Sequence[torch.Tensor], there: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


__all__ = ["NAMES", "copied", "give", "made", "parameters", "same", "train", "values"]
