"""What a keyed function sees of Flink, backed by dicts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any


class FakeFlink:
    """State by (name, key), timers by key, and the key that is current."""

    def __init__(self) -> None:
        self.key = ""
        self.values: dict[tuple[str, str], Any] = {}
        self.lists: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        self.timers: set[tuple[str, int]] = set()
        self.num_reads = 0
        self.num_dead_letters = 0

    def get_state(self, descriptor: Any) -> FakeValueState:
        return FakeValueState(self, descriptor.name)

    def get_list_state(self, descriptor: Any) -> FakeListState:
        return FakeListState(self, descriptor.name)

    def get_metrics_group(self) -> FakeFlink:
        return self

    def counter(self, name: str) -> FakeFlink:
        return self

    def inc(self) -> None:
        self.num_dead_letters += 1

    def timer_service(self) -> FakeFlink:
        return self

    def get_current_key(self) -> str:
        return self.key

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.timers.add((self.key, timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.timers.discard((self.key, timestamp))


class FakeValueState:
    def __init__(self, flink: FakeFlink, name: str) -> None:
        self._flink = flink
        self._name = name

    def value(self) -> Any:
        self._flink.num_reads += 1
        return self._flink.values.get((self._name, self._flink.key))

    def update(self, value: Any) -> None:
        self._flink.values[self._name, self._flink.key] = value

    def clear(self) -> None:
        self._flink.values.pop((self._name, self._flink.key), None)


class FakeListState:
    def __init__(self, flink: FakeFlink, name: str) -> None:
        self._flink = flink
        self._name = name

    def get(self) -> list[Any]:
        return list(self._flink.lists[self._name, self._flink.key])

    def add(self, value: Any) -> None:
        self._flink.lists[self._name, self._flink.key].append(value)

    def clear(self) -> None:
        self._flink.lists.pop((self._name, self._flink.key), None)
