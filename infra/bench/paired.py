"""Cost of a step from blocks of steps with and without Holter that were done in turn."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_NUM_RESAMPLES = 1000


@dataclass(frozen=True)
class Differences:
    """Milliseconds that a step of a block took more, of blocks without and with a checkpoint in them."""

    ordinary: tuple[float, ...]
    saving: tuple[float, ...]

    def per_step(self, saving_share: float) -> float:
        """The medians of both kinds, as often as they are: ``saving_share`` of the blocks save."""
        ordinary = statistics.median(self.ordinary)
        return ordinary + saving_share * (statistics.median(self.saving) - ordinary)

    def interval(self, saving_share: float) -> tuple[float, float]:
        """The 95 % percentile bootstrap interval of :meth:`per_step` (Efron and Tibshirani 1993, ch. 13)."""
        drawn = random.Random(0)
        estimates = sorted(
            Differences(_resampled(self.ordinary, drawn), _resampled(self.saving, drawn)).per_step(saving_share)
            for _ in range(_NUM_RESAMPLES)
        )
        return estimates[round(0.025 * _NUM_RESAMPLES)], estimates[round(0.975 * _NUM_RESAMPLES) - 1]


def differences(worn: Sequence[float], plain: Sequence[float], saves: Sequence[bool]) -> Differences:
    """Each block of ``worn`` against the mean of the plain ones before and after it, whatever drifts meanwhile.

    >>> differences([2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0], [False, True, False])
    Differences(ordinary=(1.0, 1.5), saving=(1.5,))
    """
    more = [each - (plain[at] + plain[at + 1]) / 2 for at, each in enumerate(worn[: len(plain) - 1])]
    kinds = list(zip(more, saves, strict=False))
    return Differences(
        tuple(each for each, is_saving in kinds if not is_saving), tuple(each for each, is_saving in kinds if is_saving)
    )


def _resampled(values: Sequence[float], drawn: random.Random) -> tuple[float, ...]:
    return tuple(drawn.choices(values, k=len(values)))
