"""Harm done to a healthy run at a known row, labelled by construction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.series import Array
from tests.scoreboard.truth import Label

Columns = dict[str, Array]

LOCAL_ROWS = 100
MIN_SCALES = 8.0
"""A fault that nobody could tell from the run's own noise is none."""


class Fault(Protocol):
    """Changes the columns from ``row`` on and says what was done."""

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label: ...


def noise_scale(values: Array, row: int) -> float:
    """Robust spread of the differences of neighbours before ``row``, as a standard deviation of single values."""
    steps = np.diff(values[max(0, row - LOCAL_ROWS) : row])
    return float(1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2.0))


def level(values: Array, row: int) -> float:
    return float(np.median(values[max(0, row - 15) : row]))


def weight(values: Array, row: int) -> float:
    """What a change is measured by: the level, or a third of what the run began with."""
    return max(abs(level(values, row)), abs(float(np.median(values[:5]))) / 3.0)


def height_of(values: Array, row: int, relative: float) -> float:
    return max(relative * weight(values, row), MIN_SCALES * noise_scale(values, row))


@dataclass(frozen=True)
class HealingSpike:
    """A jump by ``relative`` of the level that dies away with ``tau`` rows, and ``grad_times`` the gradient norm."""

    relative: float = 1.0
    tau: float = 10.0
    grad_times: float = 20.0

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        height = height_of(loss, row, self.relative)
        visible = max(0.1 * height, 2.0 * noise_scale(loss, row))
        num_rows = max(3, math.ceil(self.tau * math.log(height / visible)))
        shape = np.exp(-np.arange(loss.size - row) / self.tau)
        loss[row:] += height * shape
        if GRAD_NORM in columns:
            columns[GRAD_NORM][row:] *= 1.0 + (self.grad_times - 1.0) * shape
        return Label(row, min(loss.size - 1, row + num_rows), "loss_spike", f"spike{row}")


@dataclass(frozen=True)
class DataBurst:
    """Some rows of foreign data: high losses that end as they began."""

    num_rows: int = 5
    relative: float = 0.6

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        loss[row : row + self.num_rows] += height_of(loss, row, self.relative) * random.uniform(0.7, 1.3, self.num_rows)
        return Label(row, row + self.num_rows - 1, "loss_spike", f"burst{row}")


@dataclass(frozen=True)
class Explosion:
    """The gradient norm alone, ``times`` its level for some rows."""

    num_rows: int = 6
    times: float = 50.0

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        columns[GRAD_NORM][row : row + self.num_rows] *= self.times * random.uniform(0.5, 1.5, self.num_rows)
        return Label(row, row + self.num_rows - 1, "grad_explosion", f"explosion{row}")


@dataclass(frozen=True)
class Divergence:
    """The loss leaves for ``relative`` above its level within ``ramp`` rows and does not come back."""

    relative: float = 1.5
    ramp: float = 5.0
    grad_times: float = 30.0

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        path = 1.0 - np.exp(-(1.0 + np.arange(loss.size - row)) / self.ramp)
        height = height_of(loss, row, self.relative)
        loss[row:] += height * path * (1.0 + 0.05 * random.standard_normal(path.size))
        if GRAD_NORM in columns:
            columns[GRAD_NORM][row:] *= 1.0 + (self.grad_times - 1.0) * path
        return Label(row, loss.size - 1, "divergence", f"divergence{row}", recovered=False)


@dataclass(frozen=True)
class SlowDivergence:
    """A climb along a straight line to ``relative`` above the level at the end of the run."""

    relative: float = 0.8
    grad_times: float = 4.0

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        path = np.linspace(0.0, 1.0, loss.size - row)
        loss[row:] += height_of(loss, row, self.relative) * path
        if GRAD_NORM in columns:
            columns[GRAD_NORM][row:] *= self.grad_times**path
        return Label(row, loss.size - 1, "divergence", f"slow{row}", recovered=False)


@dataclass(frozen=True)
class NotANumber:
    """NaN in every metric to the end."""

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        for column in columns.values():
            column[row:] = math.nan
        return Label(row, columns[LOSS].size - 1, "nan", f"nan{row}", recovered=False)


@dataclass(frozen=True)
class Collapse:
    """Back to what the run began with, and dead there: no noise but ``jitter`` of it, no gradient."""

    jitter: float = 0.002

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        start = float(np.median(loss[:5]))
        loss[row:] = start * (1.0 + self.jitter * random.standard_normal(loss.size - row))
        if GRAD_NORM in columns:
            columns[GRAD_NORM][row:] *= 0.02
        return Label(row, loss.size - 1, "collapse", f"collapse{row}", recovered=False)


@dataclass(frozen=True)
class Plateau:
    """A jump after which nothing is learned any more: flat, ``relative`` above the level, hardly any gradient."""

    relative: float = 0.5
    jitter: float = 0.001

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        height = level(loss, row) + height_of(loss, row, self.relative)
        loss[row:] = height * (1.0 + self.jitter * random.standard_normal(loss.size - row))
        loss[row : row + 8] += height * np.exp(-np.arange(8) / 2.0)
        if GRAD_NORM in columns:
            columns[GRAD_NORM][row:] *= 0.1
            columns[GRAD_NORM][row : row + 8] *= 200.0
        return Label(row, loss.size - 1, "divergence", f"plateau{row}", recovered=False)


@dataclass(frozen=True)
class HardBatch:
    """One row, ``scales`` noise scales high: no incident, and no reason to act."""

    scales: float = 15.0

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        columns[LOSS][row] += self.scales * noise_scale(columns[LOSS], row)
        return Label(row, row, "benign_blip", f"blip{row}")


@dataclass(frozen=True)
class Shift:
    """A level ``scales`` noise scales higher for ``num_rows``; ``ramp`` makes it grow towards that instead."""

    scales: float = 4.0
    num_rows: int = 300
    ramp: bool = False

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        height = self.scales * noise_scale(loss, row)
        loss[row : row + self.num_rows] += height * (np.linspace(0.0, 1.0, self.num_rows) if self.ramp else 1.0)
        return Label(row, row + self.num_rows - 1, "divergence", f"shift{row}", confidence="medium")


@dataclass(frozen=True)
class WiderNoise:
    """``times`` the variance for some rows: neither an incident nor healthy."""

    times: float = 4.0
    num_rows: int = 100

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        loss = columns[LOSS]
        extra = noise_scale(loss, row) * np.sqrt(self.times - 1.0)
        loss[row : row + self.num_rows] += extra * random.standard_normal(self.num_rows)
        return Label(row, row + self.num_rows - 1, "loss_spike", f"wide{row}", confidence="low")


@dataclass(frozen=True)
class Zero:
    """A loss of exactly nothing from one row to the next (a mask, an overflow): collapse."""

    def strike(self, columns: Columns, row: int, random: np.random.Generator) -> Label:
        columns[LOSS][row:] = 0.0
        if GRAD_NORM in columns:
            columns[GRAD_NORM][row:] = 0.0
        return Label(row, columns[LOSS].size - 1, "collapse", f"zero{row}", recovered=False)


def harmed(
    columns: Columns, faults: Sequence[tuple[float, Fault]], random: np.random.Generator
) -> tuple[Columns, list[Label]]:
    """A copy with faults at these shares of its length, moved by up to 3 % of it."""
    hurt = {name: column.copy() for name, column in columns.items()}
    size = hurt[LOSS].size
    rows = [int(size * (share + random.uniform(-0.03, 0.03))) for share, _ in faults]
    return hurt, [fault.strike(hurt, row, random) for row, (_, fault) in zip(rows, faults, strict=True)]
