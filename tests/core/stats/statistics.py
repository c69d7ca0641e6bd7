"""Every statistic as the shared checks see it: how to make one, feed it, and read all that it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holter.pipeline.core.stats.cusum import Cusum
from holter.pipeline.core.stats.ewma import Ewma
from holter.pipeline.core.stats.extremes import Extremes, RollingExtremes
from holter.pipeline.core.stats.moments import Moments
from holter.pipeline.core.stats.quantile_sketch import QuantileSketch
from holter.pipeline.core.stats.rolling import RollingMedian
from holter.pipeline.core.stats.slope import Slope

SHARES = (0.0, 0.05, 0.5, 0.95, 1.0)


@dataclass(frozen=True)
class Checked:
    """One statistic.

    Attributes:
        arguments: of ``update`` for the value at a step.
        reads: all that it says, as numbers.
        can_revert: whether it takes back any value given to it.
        can_merge: whether two parts of a stream make the whole.
    """

    make: Callable[[], Any]
    arguments: Callable[[int, float], tuple[float, ...]]
    reads: Callable[[Any], list[float]]
    can_revert: bool = False
    can_merge: bool = False

    def fed(self, values: Sequence[float], first_step: int = 0) -> Any:
        statistic = self.make()
        for step, value in enumerate(values, first_step):
            self.feed(statistic, step, value)
        return statistic

    def feed(self, statistic: Any, step: int, value: float) -> None:
        method = statistic.push if isinstance(statistic, RollingMedian) else statistic.update
        method(*self.arguments(step, value))


def _cusum(chart: Cusum) -> list[float]:
    onsets = [chart.onset_step("up"), chart.onset_step("down")]
    return [chart.up, chart.down, *(math.nan if onset is None else float(onset) for onset in onsets)]


STATISTICS: dict[str, Checked] = {
    "moments": Checked(Moments, lambda _, value: (value,), lambda it: [it.count, it.mean, it.variance()], True, True),
    "slope": Checked(
        Slope,
        lambda step, value: (step, value),
        lambda it: [it.count, it.slope(), it.at(3.0), it.sd_of_residuals()],
        True,
        True,
    ),
    "ewma": Checked(lambda: Ewma(0.9), lambda _, value: (value,), lambda it: [it.mean()], False, True),
    "extremes": Checked(Extremes, lambda _, value: (value,), lambda it: [it.least, it.greatest], False, True),
    "rolling extremes": Checked(
        lambda: RollingExtremes(7), lambda _, value: (value,), lambda it: [len(it), it.least(), it.greatest()]
    ),
    "rolling median": Checked(
        lambda: RollingMedian(7), lambda step, value: (step, value), lambda it: [len(it), it.median(), it.mad()]
    ),
    "quantile sketch": Checked(
        QuantileSketch,
        lambda _, value: (value,),
        lambda it: [it.count, *(it.quantile(share) for share in SHARES)],
        False,
        True,
    ),
    "cusum": Checked(lambda: Cusum(0.5, 5.0), lambda step, value: (step, value), _cusum),
}
