"""Any statistic that can take a value back, over the newest values only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar


class Revertible(Protocol):
    def update(self, *value: float) -> None: ...

    def revert(self, *value: float) -> None: ...


StatisticT = TypeVar("StatisticT", bound=Revertible)


class Windowed(Generic[StatisticT]):
    """Gives each value to ``statistic`` and takes it back when ``capacity`` newer ones have come.

    What a great value rounded away is not given back with it. The statistic is therefore made anew from the values of
    the window once in ``capacity`` values, which doubles the cost of a value and bounds how long an error lasts.

    Args:
        statistic: makes an empty one.

    >>> from holter.pipeline.core.stats.moments import Moments
    >>> window = Windowed(Moments, capacity=2)
    >>> for value in (9.0, 1.0, 3.0):
    ...     window.update(value)
    >>> round(window.statistic.mean, 9), window.statistic.count
    (2.0, 2)
    """

    __slots__ = ("_capacity", "_make", "_num_since_made", "_values", "statistic")

    def __init__(self, statistic: Callable[[], StatisticT], capacity: int) -> None:
        self._make = statistic
        self._capacity = capacity
        self._values: deque[tuple[float, ...]] = deque()
        self._num_since_made = 0
        self.statistic = statistic()

    def update(self, *value: float) -> None:
        self._values.append(value)
        self._num_since_made += 1
        if self._num_since_made >= self._capacity:
            self.restore(list(self._values)[-self._capacity :])
            return
        self.statistic.update(*value)
        if len(self._values) > self._capacity:
            self.statistic.revert(*self._values.popleft())

    def values(self) -> list[tuple[float, ...]]:
        """Oldest first."""
        return list(self._values)

    def restore(self, values: Iterable[tuple[float, ...]]) -> None:
        self._values = deque(values)
        self._num_since_made = 0
        self.statistic = self._make()
        for value in self._values:
            self.statistic.update(*value)
