"""Runs that are bad from their first rows: nothing healthy to hold them against."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from msgspec import Struct

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.phase import Phase
from holter.schemas.telemetry import GRAD_NORM, LOSS


@dataclass(frozen=True)
class FirstRowsSettings:
    num_losses: int = 16
    rise: float = 0.1
    """Losses 10 to 16 above the first two by this share, and not falling."""
    flat: float = 0.006
    """Losses 5 to 16 of a coarse log within this share: a run that is dead at one value."""
    num_grads: int = 3
    grad_norm: float = 1000.0
    """So many first gradient norms all above this, the largest three times the smallest."""
    usual_grad_norm: float = 20.0
    """What such a norm is held against, for want of a healthy one of the same run."""


class FirstRowsState(Struct):
    losses: list[float] = []
    grads: list[float] = []
    is_done: bool = False


class FirstRows:
    def __init__(self, settings: FirstRowsSettings, state: FirstRowsState | None = None) -> None:
        self._settings = settings
        self.state = state or FirstRowsState()

    @property
    def is_done(self) -> bool:
        return self.state.is_done

    def update(self, step: int, loss: float | None, grad: float | None, phase: Phase) -> Evidence | None:
        """Takes the finite values of one of the first records."""
        state, settings = self.state, self._settings
        if grad is not None and len(state.grads) < settings.num_grads:
            state.grads.append(grad)
            if len(state.grads) == settings.num_grads and self._is_wild():
                state.is_done = True
                usual = settings.usual_grad_norm
                return Evidence(
                    "grad_explosion", GRAD_NORM, grad, usual, grad / usual, settings.grad_norm / usual, "critical", step
                )
        if loss is None:
            return None
        state.losses.append(loss)
        if len(state.losses) < settings.num_losses:
            return None
        state.is_done = True
        return self._climbs(step, state.losses) or (self._is_dead(step, state.losses) if phase.is_coarse else None)

    def restart(self) -> None:
        self.state = FirstRowsState()

    def _is_wild(self) -> bool:
        """Whether all first norms are huge, and jump about instead of coming down."""
        grads = self.state.grads
        is_falling = grads == sorted(grads, reverse=True)
        return min(grads) > self._settings.grad_norm and max(grads) > 3.0 * min(grads) and not is_falling

    def _climbs(self, step: int, losses: list[float]) -> Evidence | None:
        first, middle, last = max(losses[:2]), median(losses[4:10]), losses[9:]
        level = median(last)
        noise = median(abs(after - before) for before, after in pairwise(losses))
        rise = level - first
        if rise < self._settings.rise * abs(first) or rise <= 2.0 * noise or min(last) <= first:
            return None
        if median(last[-3:]) < 0.98 * middle:
            return None
        bar = max(2.0 * noise, self._settings.rise * abs(first), 1e-12)
        score = rise / max(noise, 1e-12)
        return Evidence("divergence", LOSS, level, first, score, 2.0, "warning", step, "loss divergence", rise / bar)

    def _is_dead(self, step: int, losses: list[float]) -> Evidence | None:
        tail = losses[4:]
        level, spread = median(tail), max(tail) - min(tail)
        if level <= 0.0 or spread > self._settings.flat * level:
            return None
        if median(tail[-4:]) - median(tail[:4]) <= -0.25 * spread:
            return None
        return Evidence("plateau", LOSS, level, level, 0.0, self._settings.flat, "warning", step)
