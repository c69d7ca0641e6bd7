"""Numbers of a measurement, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured number. ``target`` is what it is held against, with ``better`` the side that meets it."""

    name: str
    value: float
    unit: str
    target: float | None = None
    better: str = "lower"
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


def percentile(values: Sequence[float], share: float) -> float:
    """The value at rank ceil(share n), no interpolation.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def mean_with_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval under the normal approximation.

    >>> mean_with_error([1.0, 2.0, 3.0])[0]
    2.0
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, math.inf
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, 1.96 * math.sqrt(variance / count)


def table(figures: Sequence[Figure]) -> Table:
    shown = Table(title="Holter's figures")
    for column in ("figure", "measured", "target", "met", "how"):
        shown.add_column(column, justify="right" if column in ("measured", "target") else "left")
    for figure in figures:
        sign = "≤" if figure.better == "lower" else "≥"
        target = "" if figure.target is None else f"{sign} {figure.target:,g}"
        met = {None: "", True: "yes", False: "[red]no[/red]"}[figure.met]
        shown.add_row(figure.name, f"{figure.value:,.4g} {figure.unit}", target, met, figure.note)
    return shown
