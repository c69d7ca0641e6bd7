"""Says of bad gradients what the reflex did about them."""

from __future__ import annotations

import math

from msgspec import structs

from holter.producers.run import Run
from holter.producers.torch.explosion_reflex import ExplosionReflex
from holter.schemas.telemetry import GRAD_NORM, BadGradient


class ReflexReports:
    """Of bad steps in a row it reports the first, the second, the fourth and so on, so that a run that stays broken
    does not fill the bus.

    Args:
        selects: whether updates with a gradient that is not finite are left out here, and not by a gradient scaler,
            to which that is nothing new.
    """

    def __init__(self, run: Run, explosions: ExplosionReflex | None, selects: bool) -> None:
        self._run = run
        self._explosions = explosions
        self._selects = selects
        self._num_in_a_row = 0
        self._was_taken = False

    def arrived(self, step: int, norm: float | None, applied: bool) -> None:
        """Takes the gradient norm of a step on the host, in the order of steps."""
        bad = None if norm is None else self._bad(step, norm, applied)
        if bad is None:
            self._num_in_a_row = 0
            return
        self._num_in_a_row = self._num_in_a_row + 1 if bad.was_taken is self._was_taken else 1
        self._was_taken = bad.was_taken
        if self._num_in_a_row & (self._num_in_a_row - 1) == 0:
            self._report(step, structs.replace(bad, num_in_a_row=self._num_in_a_row))

    def _bad(self, step: int, norm: float, applied: bool) -> BadGradient | None:
        found = None if self._explosions is None else self._explosions.arrived(step, norm, applied)
        if found is not None:
            score, threshold = found.score, found.threshold
            return BadGradient(found.kind, GRAD_NORM, norm, found.baseline, score, threshold, was_taken=applied)
        if math.isfinite(norm) or applied or not self._selects:
            return None
        return BadGradient("nan", GRAD_NORM, norm, 0.0, math.inf, 0.0)

    def _report(self, step: int, bad: BadGradient) -> None:
        self._run.event(bad, step)
        if bad.was_taken:
            multiple = f"{bad.score:.3g} times its level"
            self._run.notices.warn("reflex", f"step {step}: the gradient is {multiple}, too many were left out already")
