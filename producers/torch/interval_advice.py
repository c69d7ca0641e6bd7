"""How often to save: Young's formula on what saving was measured to cost."""

from __future__ import annotations

import math
from collections.abc import Callable

HOURS_BETWEEN_FAILURES_OF_ONE_GPU = 54 * 24 * 16_384 / 419
"""419 unexpected interruptions of 16,384 GPUs in 54 days (The Llama 3 Herd of Models, arXiv:2407.21783, 3.3.4)."""
_NUM_SAVES_MEASURED = 3
_WORTH_SAYING = 2.0


def young_interval_seconds(save_seconds: float, mtbf_seconds: float) -> float:
    """√(2·δ·M): the interval that loses least (Young 1974, CACM 17(9), a first order approximation for δ ≪ M).

    Args:
        save_seconds: δ, what one save costs the training.
        mtbf_seconds: M, mean time between failures.

    >>> round(young_interval_seconds(60.0, 3.1 * 3600) / 60, 1)
    19.3
    """
    return math.sqrt(2.0 * save_seconds * mtbf_seconds)


def mtbf_seconds(num_ranks: int, num_interruptions: int, elapsed_seconds: float) -> float:
    """What is to be expected of as many GPUs, and what happened to this run, as rates that add up.

    >>> round(mtbf_seconds(16_384, 0, 0.0) / 3600, 1)
    3.1
    >>> round(mtbf_seconds(1, 10, 36_000.0) / 3600, 2)
    1.0
    """
    rate = num_ranks / (HOURS_BETWEEN_FAILURES_OF_ONE_GPU * 3600)
    return 1.0 / (rate + (num_interruptions / elapsed_seconds if elapsed_seconds > 0 else 0.0))


class IntervalAdvice:
    """One line, once, when the configured interval is more than twice as long or short as Young's.

    Args:
        every_steps: as configured.
        mtbf: of this job, in seconds, as far as it is known when asked.
    """

    def __init__(self, every_steps: int, mtbf: Callable[[], float]) -> None:
        self._every_steps = every_steps
        self._mtbf = mtbf
        self._saves: list[tuple[int, float, float, float]] = []

    def saved(self, step: int, now_seconds: float, blocked_seconds: float, written_seconds: float) -> str | None:
        """Notes a save: how long the training stood still for it, and how long until it was on the disk."""
        if len(self._saves) > _NUM_SAVES_MEASURED:
            return None
        self._saves.append((step, now_seconds, blocked_seconds, written_seconds))
        return self._advice() if len(self._saves) == _NUM_SAVES_MEASURED + 1 else None

    def _advice(self) -> str | None:
        (first, began, *_), (last, ended, *_) = self._saves[0], self._saves[-1]
        if last <= first or ended <= began:
            return None  # the run went back in between
        step_seconds = (ended - began) / (last - first)
        blocked = sorted(save[2] for save in self._saves)[len(self._saves) // 2]
        written = max(save[3] for save in self._saves)
        mtbf = self._mtbf()
        best = max(1, round(max(young_interval_seconds(blocked, mtbf), written) / step_seconds))
        if 1 / _WORTH_SAYING <= best / self._every_steps <= _WORTH_SAYING:
            return None
        return (
            f"a checkpoint holds the training up for {1000 * blocked:.1f} ms and is written in {written:.2f} s: by "
            f"Young's formula checkpoint_every={best} would lose least against failures of the machine, one in "
            f"{mtbf / 3600:,.1f} h; it is {self._every_steps} (rollbacks lose less the shorter it is)"
        )
