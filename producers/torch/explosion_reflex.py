"""Keeps exploding gradients from the weights: on the CPU by the value that is there, on a device by a limit.

A device's norm reaches the host a step or two later, on every rank when it does. The limit of a step is therefore
made of the norms that have arrived on all ranks, which they tell each other at every boundary, and is compared on the
device. Nobody waits, and all ranks leave out the same steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from holter.pipeline.core.detect.evidence import Evidence
from holter.producers.torch.device_values import host_value
from holter.producers.torch.explosions import ExplosionJudge, SkipExplosions, is_above
from holter.schemas.telemetry import GRAD_NORM

_END_OF_STEPS = 2**53


class ExplosionReflex(Protocol):
    """Asked in the order of steps; between :meth:`admitted` and :meth:`arrived` of a step others may be admitted."""

    @property
    def unread(self) -> int:
        """How far this rank is from having read all norms there may ever be: the larger, the less it has."""

    def admitted(self, step: int, norm: torch.Tensor) -> torch.Tensor:
        """The norm of a step in progress; NaN where its update must not be taken."""

    def arrived(self, step: int, norm: float, applied: bool) -> Evidence | None:
        """Takes the norm of an admitted step on the host, and whether its update was taken; what there is to say of
        one that exploded."""

    def hear(self, unread: int) -> None:
        """Takes the greatest of all ranks' :attr:`unread`; 0 where nothing is agreed."""

    def state(self) -> bytes: ...

    def load(self, state: bytes) -> None:
        """Goes on from a checkpoint."""


class HostExplosions:
    """For gradients on the CPU."""

    unread = 0

    def __init__(self, settings: SkipExplosions) -> None:
        self._judge = ExplosionJudge(settings)
        self._found: Evidence | None = None

    def admitted(self, step: int, norm: torch.Tensor) -> torch.Tensor:
        self._found = self._judge.judge(step, host_value(norm))
        if self._found is None or not self._judge.may_skip(step):
            return norm
        self._judge.note_skip(step)
        return torch.full_like(norm, math.nan)

    def arrived(self, step: int, norm: float, applied: bool) -> Evidence | None:
        return self._found

    def hear(self, unread: int) -> None:
        return

    def state(self) -> bytes:
        return self._judge.state()

    def load(self, state: bytes) -> None:
        self._judge.load(state)


class _Arrived(NamedTuple):
    step: int
    norm: float
    was_skipped: bool


class DeviceExplosions:
    """For gradients on a device. The budget is kept as far as norms have arrived: so many more may be left out.

    Of the detectors' tests it makes that of a single norm. Norms that had not arrived at a checkpoint are not learnt
    by the process that goes on from it.
    """

    def __init__(self, settings: SkipExplosions) -> None:
        self._judge = ExplosionJudge(settings)
        self._limit = math.inf
        self._may_skip = True
        self._limits: deque[tuple[int, float]] = deque()
        """Of steps whose norm has not arrived."""
        self._arrived: deque[_Arrived] = deque()
        """Norms that have not arrived on every rank, as far as it is known."""
        self._last_arrived = 0
        self._is_fresh = True
        """What is heard next was said before a checkpoint was loaded."""

    @property
    def unread(self) -> int:
        return _END_OF_STEPS - self._last_arrived

    def admitted(self, step: int, norm: torch.Tensor) -> torch.Tensor:
        self._limits.append((step, self._limit))
        if self._limit == math.inf or not self._may_skip:
            return norm
        return torch.where(norm <= self._limit, norm, math.nan)

    def arrived(self, step: int, norm: float, applied: bool) -> Evidence | None:
        while self._limits and self._limits[0][0] < step:
            self._limits.popleft()
        limit = self._limits.popleft()[1] if self._limits and self._limits[0][0] == step else math.inf
        is_explosion = is_above(norm, limit)
        self._arrived.append(_Arrived(step, norm, is_explosion and not applied))
        self._last_arrived = step
        if not is_explosion:
            return None
        level = self._judge.level
        return Evidence("grad_explosion", GRAD_NORM, norm, level, norm / level, limit / level, "warning", step)

    def hear(self, unread: int) -> None:
        if not unread:
            self._limit = math.inf
        if self._is_fresh or not unread:
            self._is_fresh = False
            return
        last = _END_OF_STEPS - unread
        while self._arrived and self._arrived[0].step <= last:
            self._learn(self._arrived.popleft())

    def state(self) -> bytes:
        return self._judge.state()

    def load(self, state: bytes) -> None:
        self._judge.load(state)
        self._limits.clear()
        self._arrived.clear()
        self._limit = math.inf
        self._is_fresh = True

    def _learn(self, arrived: _Arrived) -> None:
        judge = self._judge
        judge.judge(arrived.step, arrived.norm)
        if arrived.was_skipped:
            judge.note_skip(arrived.step)
        self._limit, self._may_skip = judge.single_limit(), judge.may_skip(arrived.step + 1)


def make_explosion_reflex(parameters: Sequence[torch.Tensor], settings: SkipExplosions) -> ExplosionReflex:
    if all(parameter.device.type == "cpu" for parameter in parameters):
        return HostExplosions(settings)
    return DeviceExplosions(settings)
