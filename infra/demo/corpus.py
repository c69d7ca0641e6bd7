"""Batches of the Python standard library's source text, one byte a token."""

from __future__ import annotations

import functools
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]
"""Tokens (batch, context + 1), and the weight of each sample's loss."""

_MAX_BYTES = 6_000_000
_HELD_OUT_BYTES = 200_000


@functools.cache
def read_corpus() -> Tensor:
    """The text as tokens below 128, always in the same order; read once, and never to be written to."""
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= _MAX_BYTES:
            break
    return torch.frombuffer(text, dtype=torch.uint8).long() & 127


class SeededBatches(ABC):
    """Batch ``i`` depends on the seed and ``i`` alone, so that a position can be gone back to.

    Args:
        hurt: changes a batch by its index; faults in the data live here.
    """

    def __init__(self, seed: int, hurt: Callable[[int, Batch], Batch]) -> None:
        self._seed = seed
        self._hurt = hurt
        self._next = 0

    @abstractmethod
    def draw(self, seed: int) -> Batch:
        """A batch that is never hurt."""

    def __iter__(self) -> Iterator[Batch]:
        while True:
            index = self._next
            self._next += 1
            yield self._hurt(index, self.draw(self._seed * 1_000_003 + index))

    def state_dict(self) -> dict[str, int]:
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._next = state["next"]


class Batches(SeededBatches):
    """Of the text but for its end, which is held out."""

    def __init__(
        self, corpus: Tensor, seed: int, batch_size: int, context: int, hurt: Callable[[int, Batch], Batch]
    ) -> None:
        super().__init__(seed, hurt)
        self._corpus = corpus[:-_HELD_OUT_BYTES]
        self._held_out = corpus[-_HELD_OUT_BYTES:]
        self._batch_size = batch_size
        self._context = context

    def draw(self, seed: int) -> Batch:
        return self._draw_of(self._corpus, seed)

    def held_out(self, count: int) -> list[Batch]:
        """The same batches of text that is never trained on."""
        return [self._draw_of(self._held_out, -1 - index) for index in range(count)]

    def _draw_of(self, text: Tensor, seed: int) -> Batch:
        generator = torch.Generator().manual_seed(seed & 0x7FFFFFFF)
        starts = torch.randint(len(text) - self._context - 1, (self._batch_size,), generator=generator)
        tokens = torch.stack([text[start : start + self._context + 1] for start in starts.tolist()])
        return tokens, torch.ones(self._batch_size)
