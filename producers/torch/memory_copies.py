"""The memory tier: the last few states of a run in host memory, within a budget of bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from holter.producers.torch.checkpoint_files import DamagedCheckpoint, Manifest, check_finite
from holter.producers.torch.snapshot import Snapshots, num_bytes_of

MAX_COPIES = 4
_MIN_COPIES = 2
_LOOKBACK_STEPS = 30
"""How far back the oldest copy that is not the healthy one has to reach: a copy is called healthy some steps later."""


@dataclass(eq=False)
class _Copy:
    manifest: Manifest
    state: dict[str, Any]
    is_healthy: bool = False
    buffers: Snapshots = field(default_factory=Snapshots)


class MemoryCopies:
    """The newest copies and the newest healthy one. Training thread only; it is lost with the process.

    Where the budget holds fewer than :data:`MAX_COPIES`, copies lie further apart, so that the oldest is old enough
    to be known as healthy; where it holds fewer than two there are none. Every rank keeps as many as the rank that
    has room for the fewest.

    Args:
        every_steps: optimizer steps between two copies; 0 keeps none.
        budget_bytes: of host memory, on every rank.
    """

    def __init__(self, every_steps: int, budget_bytes: int) -> None:
        self._every_steps = every_steps
        self._budget_bytes = budget_bytes
        self._capacity: int | None = None
        self._copies: list[_Copy] = []
        self._spare: list[Snapshots] = []

    @property
    def num_lacking(self) -> int:
        """By how many copies this rank falls short; unknown before the first."""
        return 0 if self._capacity is None else MAX_COPIES - self._capacity

    @property
    def pinned(self) -> Manifest | None:
        """The newest healthy copy."""
        return next((copy.manifest for copy in reversed(self._copies) if copy.is_healthy), None)

    @property
    def spacing_steps(self) -> int:
        """Steps between copies; 0 where none are kept."""
        capacity = MAX_COPIES if self._capacity is None else self._capacity
        if not self._every_steps or capacity < _MIN_COPIES:
            return 0
        return self._every_steps * max(1, math.ceil(_LOOKBACK_STEPS / (self._every_steps * (capacity - 1))))

    def is_due(self, step: int) -> bool:
        return bool(self.spacing_steps) and step % self.spacing_steps == 0

    def hear(self, num_lacking: int) -> None:
        """Another rank has room for fewer."""
        if self._capacity is not None:
            self._capacity = min(self._capacity, MAX_COPIES - num_lacking)

    def take(self, name: str, attempt: int, step: int, state: dict[str, Any], now_ms: int) -> list[str] | None:
        """Copies; returns the names that gave way, None where the budget has no room for this state."""
        size = num_bytes_of(state)
        if self._capacity is None:
            self._capacity = min(MAX_COPIES, self._budget_bytes // max(1, size))
        if self._capacity < _MIN_COPIES:
            self._copies, self._spare = [], []
            return None
        dropped = self._make_room(name)
        buffers = self._spare.pop() if self._spare else Snapshots()
        copied = buffers.take(state)
        self._copies.append(_Copy(Manifest(name, attempt, step, size, "", now_ms), copied, buffers=buffers))
        return dropped

    def heal(self, name: str) -> None:
        for copy in self._copies:
            copy.is_healthy = copy.is_healthy or copy.manifest.name == name

    def find(self, name: str) -> Manifest | None:
        return next((copy.manifest for copy in self._copies if copy.manifest.name == name), None)

    def read(self, name: str) -> dict[str, Any]:
        """A state of its own: an optimizer that loads it may go on writing into it.

        Raises:
            DamagedCheckpoint: the weights are not finite; it is kept no longer.
        """
        copy = next(copy for copy in self._copies if copy.manifest.name == name)
        copy.buffers.wait()
        try:
            check_finite(f"the copy {name} in memory", copy.state.get("model", {}))
        except DamagedCheckpoint:
            self.drop(name)
            raise
        state: dict[str, Any] = Snapshots(pins=False).take(copy.state)
        return state

    def drop(self, name: str) -> None:
        self._release([copy for copy in self._copies if copy.manifest.name == name])

    def rewind(self, step: int) -> None:
        """The run went back: later copies are of a line that ended."""
        self._release([copy for copy in self._copies if copy.manifest.step > step])

    def _make_room(self, name: str) -> list[str]:
        self.drop(name)
        dropped: list[str] = []
        while len(self._copies) >= (self._capacity or 0):
            pinned = self.pinned
            oldest = next(copy for copy in self._copies if copy.manifest is not pinned)
            dropped.append(oldest.manifest.name)
            self._release([oldest])
        return dropped

    def _release(self, copies: list[_Copy]) -> None:
        self._spare += [copy.buffers for copy in copies][: MAX_COPIES - len(self._spare)]
        self._copies = [copy for copy in self._copies if copy not in copies]


def bytes_of_gib(gib: float) -> int:
    """
    >>> bytes_of_gib(0.5)
    536870912
    """
    if not (math.isfinite(gib) and gib >= 0):
        raise ValueError("memory_gib must be a finite number of at least 0")
    return int(gib * 2**30)
