"""What a training whose step is measured is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holter.producers import Run

_STEP_SECONDS = 0.05


@dataclass(frozen=True)
class Trained:
    """``begin_step`` is called where each step begins; without ``run`` nothing is worn."""

    begin_step: Callable[[], None]
    num_steps: int
    batch_size: int
    checkpoint_every: int
    folder: Path
    run: Run | None = None

    @property
    def worn(self) -> dict[str, Any]:
        """The arguments that all of Holter's own for torch share."""
        return {"run": self.run, "checkpoints": self.folder, "checkpoint_every": self.checkpoint_every}


def fitting_batch_size(seconds_of: Callable[[int], float], sizes: tuple[int, int]) -> int:
    """Samples a batch that make a step of about 50 ms, by what the two sizes take.

    >>> fitting_batch_size(lambda size: 0.01 + 0.002 * size, (4, 16))
    20
    """
    seconds = [seconds_of(size) for size in sizes]
    slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    fitting = sizes[0] + (_STEP_SECONDS - seconds[0]) / slope if slope > 0 else sizes[1]
    return min(max(1, round(fitting)), 4 * sizes[1])
