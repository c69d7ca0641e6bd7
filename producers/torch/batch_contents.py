"""What the recent batches held: how many samples and tokens, at which absolute position, under which ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from msgspec import Struct

from holter.producers.bad_batches import MAX_SAMPLE_IDS

MAX_BATCHES = 5_000
SampleIds = Callable[[Any], Iterable[Any]]
_MAX_DEPTH = 3


class Extent(Struct, frozen=True):
    first_sample: int | None
    num_samples: int
    first_token: int | None
    num_tokens: int
    ids: tuple[str | int, ...] = ()


class BatchContents:
    """Counts from shapes alone, so that no device is waited for. Bounded: of older batches it no longer knows.

    Samples are the first dimension of a batch's first tensor. Tokens are the elements of that tensor where it holds
    integers in two dimensions, as ``input_ids`` does. Where a batch shows neither, positions are unknown from there on.
    """

    def __init__(self) -> None:
        self.sample_ids: SampleIds | None = None
        """The trainer's own function from a batch to the ids of its samples: text or integers, on the host."""
        self._recent: dict[int, Extent] = {}
        self._num_samples: int | None = 0
        self._num_tokens: int | None = 0

    def note(self, index: int, batch: Any) -> None:
        """A batch that was read, whether it is consumed or not."""
        num_samples, num_tokens = count(batch)
        extent = Extent(self._num_samples, num_samples, self._num_tokens, num_tokens, self._ids(batch))
        self._recent.pop(index, None)
        self._recent[index] = extent
        self._num_samples = _advanced(self._num_samples, num_samples)
        self._num_tokens = _advanced(self._num_tokens, num_tokens)
        if len(self._recent) > MAX_BATCHES:
            del self._recent[next(iter(self._recent))]

    def extent(self, index: int) -> Extent | None:
        return self._recent.get(index)

    def between(self, first: int, last: int) -> Extent | None:
        """All that a range of batches held; None where not all of them are known. Longer lists of ids are cut."""
        extents = [self._recent.get(index) for index in range(first, last + 1)] if last - first < MAX_BATCHES else []
        known = [extent for extent in extents if extent is not None]
        if not known or len(known) < len(extents):
            return None
        ids = tuple(each for extent in known for each in extent.ids)[:MAX_SAMPLE_IDS]
        num_samples = sum(extent.num_samples for extent in known)
        num_tokens = sum(extent.num_tokens for extent in known)
        return Extent(known[0].first_sample, num_samples, known[0].first_token, num_tokens, ids)

    def state(self) -> dict[str, int | None]:
        return {"num_samples": self._num_samples, "num_tokens": self._num_tokens}

    def load(self, state: Mapping[str, Any], next_index: int) -> None:
        """Goes to the position of a checkpoint; one that does not tell leaves it unknown."""
        self._num_samples, self._num_tokens = state.get("num_samples"), state.get("num_tokens")
        self._recent = {index: extent for index, extent in self._recent.items() if index < next_index}

    def _ids(self, batch: Any) -> tuple[str | int, ...]:
        if self.sample_ids is None:
            return ()
        found = self.sample_ids(batch)
        if isinstance(found, torch.Tensor):
            found = [] if found.is_cuda else found.flatten().tolist()
        return tuple(each if isinstance(each, str | int) else str(each) for each in found)


def count(batch: Any) -> tuple[int, int]:
    """Samples and tokens of a batch; zeros where they cannot be seen.

    >>> count({"input_ids": torch.zeros(8, 128, dtype=torch.long)})
    (8, 1024)
    >>> count((torch.zeros(8, 3, 32, 32), torch.zeros(8)))
    (8, 0)
    >>> count("text")
    (0, 0)
    """
    tensor = _first_tensor(batch, _MAX_DEPTH)
    if tensor is None or tensor.dim() == 0:
        return 0, 0
    is_text = tensor.dim() == 2 and not tensor.is_floating_point() and tensor.dtype != torch.bool
    return int(tensor.shape[0]), tensor.numel() if is_text else 0


def _first_tensor(value: Any, depth: int) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if depth == 0:
        return None
    if isinstance(value, Mapping) or hasattr(value, "values"):
        children = ([value["input_ids"]] if "input_ids" in value else []) + list(value.values())
    else:
        children = list(value) if isinstance(value, list | tuple) else []
    return next((found for child in children if (found := _first_tensor(child, depth - 1)) is not None), None)


def _advanced(position: int | None, amount: int) -> int | None:
    return None if position is None or not amount else position + amount
