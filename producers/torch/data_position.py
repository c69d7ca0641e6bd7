"""Where a run is in its data, and how to go back there.

Positions are absolute batch indices, counted over epochs. There are four ways back, in this order:

- the loader keeps its own position (``state_dict``/``load_state_dict``, as torchdata's stateful loader does);
- the loader is a sequence (``len`` and ``[index]``): batches are fetched by index;
- the loader gives the same batches again when iterated again: a ``torch.utils.data.DataLoader`` over a dataset with
  indices whose sampler is sequential, random or distributed (the generator's state at the start of the epoch is kept
  and restored), or any iterable that the caller declares ``seeded``; the batches before the position are discarded;
- none: the run cannot be rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.utils import data

from holter.producers.torch.batch_contents import BatchContents
from holter.producers.torch.data_history import DataHistory
from holter.producers.torch.mismatch import Mismatch


class DataSource(Protocol):
    """One way to read a loader from an absolute batch index on."""

    can_go_back: bool

    def batches(self, index: int) -> Iterator[tuple[int, Any]]:
        """Batches with their absolute indices, to the end of the epoch that ``index`` lies in."""

    def state(self) -> dict[str, Any]:
        """What :meth:`load` needs beside the index."""

    def load(self, state: dict[str, Any]) -> None: ...


class IndexedSource:
    """A sequence of batches."""

    can_go_back = True

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def batches(self, index: int) -> Iterator[tuple[int, Any]]:
        size = len(self._loader)
        for at in range(index % size, size) if size else ():
            yield index - index % size + at, self._loader[at]

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        pass


class StatefulSource:
    """A loader that keeps its own position.

    Its worker processes seed themselves anew after going back: what they draw at random is not replayed.
    """

    can_go_back = True

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._is_back = False

    def batches(self, index: int) -> Iterator[tuple[int, Any]]:
        yield from enumerate(self._enter_again() if self._is_back else iter(self._loader), index)

    def state(self) -> dict[str, Any]:
        return {"loader": self._loader.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state["loader"])
        self._is_back = True

    def _enter_again(self) -> Iterator[Any]:
        """In the middle of an epoch: torch's loaders draw a seed when they are entered, which was drawn before."""
        self._is_back = False
        present = torch.get_rng_state()
        iterator: Iterator[Any] = iter(self._loader)
        torch.set_rng_state(present)
        return iterator


class RepeatableSource:
    """A loader that gives the same batches when iterated again from the same generator state."""

    can_go_back = True

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._epoch_index = 0
        self._epoch = 0
        self._generator_state: torch.Tensor | None = None
        self._is_back = False

    def batches(self, index: int) -> Iterator[tuple[int, Any]]:
        """Where an epoch is entered again, its batches before ``index`` are read and thrown away."""
        if not self._is_back:
            self._epoch_index = index
            self._generator_state = _generator_state(self._loader)
        for at, batch in enumerate(self._iterate(), self._epoch_index):
            if at >= index:
                yield at, batch
        self._epoch += 1

    def state(self) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "epoch_index": self._epoch_index,
            "generator": None if self._generator_state is None else self._generator_state.clone(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._epoch, self._epoch_index = int(state["epoch"]), int(state["epoch_index"])
        self._generator_state = state["generator"]
        self._is_back = True

    def _iterate(self) -> Iterator[Any]:
        set_epoch = getattr(getattr(self._loader, "sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(self._epoch)
        if not self._is_back:
            return iter(self._loader)
        self._is_back = False
        return self._iterate_from_state()

    def _iterate_from_state(self) -> Iterator[Any]:
        generator, present = _generator(self._loader), torch.get_rng_state()
        if self._generator_state is not None:
            (torch.default_generator if generator is None else generator).set_state(self._generator_state)
        iterator = iter(self._loader)
        first = next(iterator, None)  # samplers draw their seed at the first batch
        if generator is None:
            torch.set_rng_state(present)
        if first is not None:
            yield first
        yield from iterator


class OneWaySource:
    """A loader that can only be read on."""

    can_go_back = False

    def __init__(self, loader: Any) -> None:
        self._iterable = loader

    def batches(self, index: int) -> Iterator[tuple[int, Any]]:
        yield from enumerate(self._iterable, index)

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        pass


class DataPosition:
    """A run's place in its loader: what was consumed, and the way back."""

    def __init__(self) -> None:
        self.history = DataHistory()
        self.contents = BatchContents()
        self._source: DataSource | None = None
        self._unclaimed: dict[str, Any] | None = None

    @property
    def can_go_back(self) -> bool:
        return self._source is not None and self._source.can_go_back

    def attach(self, source: DataSource) -> None:
        """Reads from this source from now on, at the position of a checkpoint where one was loaded before.

        Raises:
            Mismatch: that checkpoint was made with another kind of loader, or the loader cannot go there.
        """
        self._source = source
        if self._unclaimed is not None:
            unclaimed, self._unclaimed = self._unclaimed, None
            self.check(unclaimed)
            self.load(unclaimed)

    def batches(self) -> Iterator[tuple[int, Any]]:
        assert self._source is not None
        return self._source.batches(self.history.next_index)

    def state(self) -> dict[str, Any]:
        source = self._source
        return {
            "next_index": self.history.next_index,
            "history": self.history.state(),
            "contents": self.contents.state(),
            "kind": "" if source is None else type(source).__name__,
            "source": {} if source is None else source.state(),
        }

    def check(self, state: dict[str, Any]) -> None:
        """Raises :class:`Mismatch` when :meth:`load` could not take the loader there."""
        if self._source is None:
            return
        kind = type(self._source).__name__
        if state["kind"] not in ("", kind):
            raise Mismatch(f"the checkpoint was made with a loader of kind {state['kind']}, this one is {kind}")
        if not self._source.can_go_back and state["next_index"] > 0:
            raise Mismatch("this loader cannot be taken to the checkpoint's position")

    def load(self, state: dict[str, Any]) -> None:
        self.history.load(state["history"], int(state["next_index"]))
        self.contents.load(state.get("contents", {}), self.history.next_index)
        if self._source is None:
            self._unclaimed = state
        elif state["kind"]:
            self._source.load(state["source"])


def make_source(loader: Any, seeded: bool = False) -> DataSource:
    if hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict"):
        return StatefulSource(loader)
    if hasattr(loader, "__getitem__") and hasattr(loader, "__len__"):
        return IndexedSource(loader)
    if iter_is_once(loader):
        return OneWaySource(loader)
    return RepeatableSource(loader) if seeded or _is_repeatable(loader) else OneWaySource(loader)


def iter_is_once(loader: Any) -> bool:
    """Whether the loader is an iterator itself, gone once it is read."""
    return hasattr(loader, "__next__")


def _is_repeatable(loader: Any) -> bool:
    if not isinstance(loader, data.DataLoader) or isinstance(loader.dataset, data.IterableDataset):
        return False
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not data.BatchSampler:
        return False
    return isinstance(loader.sampler, (data.SequentialSampler, data.RandomSampler)) or hasattr(
        loader.sampler, "set_epoch"
    )


def _generator(loader: Any) -> torch.Generator | None:
    """The generator that orders the batches; None for torch's global one."""
    generator = getattr(getattr(loader, "sampler", None), "generator", None) or getattr(loader, "generator", None)
    return generator if isinstance(generator, torch.Generator) else None


def _generator_state(loader: Any) -> torch.Tensor:
    generator = _generator(loader)
    return torch.get_rng_state() if generator is None else generator.get_state()
