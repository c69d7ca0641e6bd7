"""Which processes make up a pipeline: they find each other, and find each other again when one was replaced."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore, Store

GENERATION = "generation/"
REBUILT = "rebuilt/"


class Generation(NamedTuple):
    """A process group, and the stages that came into it with nothing."""

    number: int
    lost: tuple[int, ...]


def generation_key(number: int) -> str:
    return f"{GENERATION}{number}"


def rebuilt_key(generation: int, stage: int) -> str:
    return f"{REBUILT}{generation}/{stage}"


class Membership:
    """A stage's side. The store is the supervisor's, so that it outlives every stage.

    A stage that dies closes its connections: whoever waits for it gets a ``RuntimeError``, leaves, which closes its
    own, and so all stages come to :meth:`join` the next generation. It has to be the default process group, of gloo.

    Args:
        patience: how long to wait for the others; a stage that hangs and does not die is noticed after it.
    """

    def __init__(self, store: Store, stage: int, num_stages: int, patience: timedelta = timedelta(seconds=60)) -> None:
        self._store, self._stage, self._num_stages, self._patience = store, stage, num_stages, patience
        self._joined = -1

    def join(self) -> Generation:
        """Waits for a generation after the last one and enters the newest.

        Raises:
            RuntimeError: there is none in time, or its stages do not come; it may be tried again.
        """
        self._store.wait([generation_key(self._joined + 1)], self._patience)
        number = self._joined + 1
        while self._store.check([generation_key(number + 1)]):
            number += 1
        self._joined = number
        lost = self._store.get(generation_key(number)).decode()
        distributed.init_process_group(
            "gloo",
            store=PrefixStore(f"group/{number}", self._store),
            rank=self._stage,
            world_size=self._num_stages,
            timeout=self._patience,
        )
        return Generation(number, tuple(int(stage) for stage in lost.split(",") if stage))

    def is_whole(self) -> None:
        """Says that this stage is done with rebuilding what its generation had lost."""
        self._store.set(rebuilt_key(self._joined, self._stage), "1")

    def leave(self) -> None:
        if distributed.is_initialized():
            distributed.destroy_process_group()
