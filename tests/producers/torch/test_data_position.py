"""Every kind of loader goes back to the batch it was at, or says that it cannot."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

from holter.producers.torch.data_history import DataHistory
from holter.producers.torch.data_position import DataPosition, OneWaySource, make_source
from holter.producers.torch.mismatch import Mismatch

pytestmark = pytest.mark.torch
DATA = TensorDataset(torch.arange(24))


class StatefulLoader:
    """Keeps its own position, as torchdata's stateful loader does."""

    def __init__(self) -> None:
        self._at = 0

    def __iter__(self) -> Iterator[int]:
        while self._at < 6:
            self._at += 1
            yield self._at - 1
        self._at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self._at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._at = state["at"]


class Reiterable:
    def __iter__(self) -> Iterator[int]:
        return iter(range(6))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(24))


LOADERS: dict[str, Callable[[], Any]] = {
    "stateful": StatefulLoader,
    "list": lambda: list(range(6)),
    "sequential": lambda: DataLoader(DATA, batch_size=4),
    "shuffled": lambda: DataLoader(DATA, batch_size=4, shuffle=True),
    "generator": lambda: DataLoader(DATA, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3)),
    "distributed": lambda: DataLoader(DATA, batch_size=2, sampler=DistributedSampler(DATA, num_replicas=2, rank=1)),
}


class Reading:
    """Reads on and on, as a guarded loop does."""

    def __init__(self, position: DataPosition) -> None:
        self.position = position
        self._batches = self._read()

    def next(self, num_batches: int) -> list[tuple[int, list[int]]]:
        return list(itertools.islice(self._batches, num_batches))

    def go_back(self, state: dict[str, Any]) -> None:
        self.position.load(state)
        self._batches = self._read()

    def _read(self) -> Iterator[tuple[int, list[int]]]:
        while True:
            for index, batch in self.position.batches():
                self.position.history.consume(index)
                first = batch[0] if isinstance(batch, list) else batch
                yield index, torch.as_tensor(first).flatten().tolist()


def reading(loader: Any, seeded: bool = False) -> Reading:
    position = DataPosition()
    position.attach(make_source(loader, seeded))
    return Reading(position)


@pytest.mark.parametrize("consumed", [1, 4, 6, 9, 12])
@pytest.mark.parametrize("kind", LOADERS)
def test_going_back_gives_the_same_batches_again(kind: str, consumed: int) -> None:
    torch.manual_seed(7)
    data = reading(LOADERS[kind]())
    assert data.position.can_go_back
    data.next(consumed)
    state, random = data.position.state(), torch.get_rng_state()
    expected = data.next(11)
    data.go_back(state)
    torch.set_rng_state(random)
    assert data.next(11) == expected
    assert [index for index, _ in expected] == list(range(consumed, consumed + 11))


@pytest.mark.parametrize("kind", LOADERS)
def test_a_new_process_goes_on_where_the_old_one_was(kind: str) -> None:
    torch.manual_seed(7)
    data = reading(LOADERS[kind]())
    data.next(8)
    state, random = data.position.state(), torch.get_rng_state()
    expected = data.next(8)
    torch.manual_seed(1)
    later = DataPosition()
    later.load(state)
    later.attach(make_source(LOADERS[kind]()))
    torch.set_rng_state(random)
    assert Reading(later).next(8) == expected


@pytest.mark.parametrize(
    "loader", [iter(range(6)), Reiterable(), DataLoader(Stream(), batch_size=4), (number for number in range(3))]
)
def test_other_loaders_only_go_on(loader: Any) -> None:
    assert isinstance(make_source(loader), OneWaySource)
    assert not make_source(loader).can_go_back


def test_a_seeded_iterable_goes_back_by_reading_again() -> None:
    data = reading(Reiterable(), seeded=True)
    data.next(8)
    state = data.position.state()
    expected = data.next(5)
    data.go_back(state)
    assert data.next(5) == expected


def test_another_kind_of_loader_is_a_mismatch() -> None:
    data = reading([1, 2, 3])
    data.next(2)
    other = DataPosition()
    other.load(data.position.state())
    with pytest.raises(Mismatch, match="kind"):
        other.attach(make_source(StatefulLoader()))
    with pytest.raises(Mismatch, match="kind"):
        reading(iter([1])).position.check(data.position.state())


def test_the_history_turns_steps_into_data() -> None:
    history = DataHistory()
    for step, batches in ((1, (0, 1)), (2, (2, 3)), (3, (6, 7))):
        for index in batches:
            history.consume(index)
        history.end_step(step)
    history.consume(8)
    assert history.consumed_after(1) == (2, 8)
    assert history.consumed_after(2) == (6, 8)
    assert history.consumed_after(9) is None
    restored = DataHistory()
    restored.load(history.state(), 8)
    assert (restored.next_index, restored.consumed_after(0)) == (8, (0, 7))
