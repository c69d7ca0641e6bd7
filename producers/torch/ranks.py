"""What a process knows of the other ranks."""

from __future__ import annotations

import torch
from torch import distributed


def num_ranks(announced: int) -> int:
    """``announced`` is what the environment says."""
    if distributed.is_available() and distributed.is_initialized():
        return max(announced, distributed.get_world_size())
    return announced


def shared_attempt(attempt: int) -> int:
    """Rank 0's attempt, on every rank: one broadcast at the start, none without a process group."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return attempt
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    number = torch.tensor([attempt], dtype=torch.int64, device=device)
    distributed.broadcast(number, src=0)
    return int(number.cpu())


def gradients_agree(model: torch.nn.Module) -> bool:
    """Whether every rank sees the same gradients, so that each would skip the same steps."""
    return isinstance(model, torch.nn.parallel.DistributedDataParallel)
