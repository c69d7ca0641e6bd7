"""The held-out loss of an unhurt run over its steps, read both ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_TAIL_STEPS = 100


@dataclass(frozen=True)
class Curve:
    """Points are (step, loss); the loss is read as its least value so far, so that it falls.

    >>> curve = Curve(((0, 4.0), (100, 3.0), (200, 2.5)), fork_step=100)
    >>> curve.steps_to(3.5), curve.steps_to(2.75), curve.steps_to(2.0)
    (50.0, 150.0, 300.0)
    """

    points: tuple[tuple[int, float], ...]
    fork_step: int

    @property
    def first_loss(self) -> float:
        return self.points[0][1]

    @property
    def loss_at_fork(self) -> float:
        return next(loss for step, loss in self.points if step >= self.fork_step)

    def steps_to(self, loss: float) -> float:
        """Steps until the run has this loss; beyond the last point it goes on as over the last 100 steps."""
        if not loss < self.first_loss:
            return 0.0
        falling = _falling(self.points)
        for (step, above), (later_step, below) in itertools.pairwise(falling):
            if below <= loss:
                return step + (later_step - step) * (above - loss) / (above - below)
        last_step, last_loss = falling[-1]
        slope = self._tail_slope()
        return last_step + (last_loss - loss) / slope if slope > 0.0 else float(last_step)

    def _tail_slope(self) -> float:
        """Nats a step."""
        last_step, last_loss = self.points[-1]
        earlier = [(step, loss) for step, loss in self.points if step <= last_step - _TAIL_STEPS] or [self.points[0]]
        step, loss = earlier[-1]
        return (loss - last_loss) / (last_step - step) if last_step > step else 0.0


def joined(before: Sequence[tuple[int, float]], after: Sequence[tuple[int, float | None]], fork_step: int) -> Curve:
    """Of a run and what followed its fork."""
    later = [(fork_step + step, math.inf if loss is None else loss) for step, loss in after if step > 0]
    return Curve((*before, *later), fork_step)


def _falling(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    kept: list[tuple[int, float]] = []
    for step, loss in points:
        if not kept or loss < kept[-1][1]:
            kept.append((step, loss))
    return kept
