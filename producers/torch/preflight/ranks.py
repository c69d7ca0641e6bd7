"""What of a rank has to be the same as on the others, or must not be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import distributed

from holter.producers.torch.sharding import is_sharded, local_part

Parallelism = Literal["tensor", "data"]


@dataclass(frozen=True)
class RankFacts:
    """Digests by name of the matrices that must differ between the ranks, and of the random state."""

    matrices: Mapping[str, str]
    random_state: str
    has_dropout: bool = False


def facts_of(model: torch.nn.Module, are_shards: bool = False) -> RankFacts:
    """Of this process. Parts of a ``DTensor`` must differ, and what Megatron marks as ``tensor_model_parallel``;
    with ``are_shards`` every matrix."""
    matrices = {
        name: digest(local_part(parameter))
        for name, parameter in model.named_parameters()
        if parameter.dim() >= 2 and (are_shards or must_differ(parameter)) and not _is_constant(local_part(parameter))
    }
    dropout = any(isinstance(each, torch.nn.Dropout) and each.p > 0 for each in model.modules())
    return RankFacts(matrices, digest(torch.get_rng_state()), dropout)


def gathered_facts(model: torch.nn.Module) -> tuple[RankFacts, ...]:
    """Of every rank of a running job; all have to call it. Nothing outside one."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return ()
    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, facts_of(model))
    return tuple(gathered)


def must_differ(parameter: torch.Tensor) -> bool:
    if not is_sharded(parameter):
        return bool(getattr(parameter, "tensor_model_parallel", False))
    return any(not placement.is_replicate() for placement in parameter.placements)  # type: ignore[attr-defined]


@torch.no_grad()
def digest(tensor: torch.Tensor) -> str:
    raw = tensor.detach().cpu().contiguous().view(torch.uint8)
    return hashlib.blake2b(raw.numpy().tobytes(), digest_size=16).hexdigest()


def _is_constant(tensor: torch.Tensor) -> bool:
    return tensor.numel() == 0 or bool((tensor == tensor.flatten()[0]).all())
