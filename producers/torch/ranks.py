"""What a process knows of the other ranks, and how they come to one mind: here for a process that is alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import distributed


class Word(NamedTuple):
    """What a rank says at a boundary; what is heard is the greatest of every field over the ranks."""

    wants_action: int = 0
    is_saving: int = 0
    pinned_attempt: int = 0
    pinned_step: int = 0
    copy_attempt: int = 0
    """The newest healthy copy in memory, as ``pinned`` is of the files."""
    copy_step: int = 0
    copies_lacking: int = 0
    """By how many copies the rank with the least room falls short."""
    unread: int = 0
    """What :class:`~holter.producers.torch.explosion_reflex.ExplosionReflex` has not read."""
    spacing: int = 0
    """Boundaries from one round to the next, as the lead has it."""


class Ranks:
    """One process that need ask nobody."""

    rank = 0
    num_ranks = 1
    is_armed = True
    """Whether they still agree; once they do not, they never do again."""

    @property
    def is_lead(self) -> bool:
        return self.rank == 0

    def poll(self, say: Callable[[], Word], is_awaited: bool = False) -> Word:
        """Hears what every rank said at the same boundary: here this one, with more ranks one before.

        They need not be asked at every boundary; ``wants_action`` is heard once. ``is_awaited``, the same on all
        ranks, promises that what is said now is heard at the next one.
        """
        return say()

    def gather(self, content: bytes, patience: float = 1.0) -> list[bytes] | None:
        """What every rank says, by rank; all of them hear it or none does. None disarms.

        Every rank must call it at the same place. ``patience`` multiplies how long the lead waits for the others.
        """
        return [content]

    def leave(self) -> None:
        """This rank takes no further part; nobody waits for it."""


class Apart(Ranks):
    """One of several ranks that cannot reach each other: nothing is agreed."""

    is_armed = False

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank, self.num_ranks = rank, num_ranks

    def poll(self, say: Callable[[], Word], is_awaited: bool = False) -> Word:
        return Word()

    def gather(self, content: bytes, patience: float = 1.0) -> list[bytes] | None:
        return None


def has_process_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def num_ranks(announced: int) -> int:
    """``announced`` is what the environment says."""
    return max(announced, distributed.get_world_size()) if has_process_group() else announced


def is_data_parallel(model: torch.nn.Module) -> bool:
    """Whether every rank has the same weights and sees the same gradients."""
    return isinstance(getattr(model, "_orig_mod", model), torch.nn.parallel.DistributedDataParallel)
