"""What ``run.log`` of 12 values costs the training thread while the sender talks to a real broker.

The thread computes between two calls, as a training step does: after a sleep the first Python call of any library
pays for cold caches and a core that has to wake up. That is measured too, and told in the note.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from holter.infra.bench.figures import Figure, percentile
from holter.producers import Run, init

NUM_VALUES = 12
_NUM_WARM_UP = 50
_RATES = {20: 400, 500: 6000}
"""Steps a second, and how many are measured."""


def measure(environ: dict[str, str]) -> list[Figure]:
    run = init("bench", f"log-{time.time_ns()}", environ=environ)
    timer = _LogTimer(run)
    computing = {rate: timer.samples(rate, count, _compute) for rate, count in _RATES.items()}
    sleeping = {rate: timer.samples(rate, count // 2, time.sleep) for rate, count in _RATES.items()}
    stats = run.stats()
    run.finish()
    note = "; ".join(
        f"{label} {rate}/s: {percentile(taken, 0.5):.1f} and {percentile(taken, 0.99):.1f} µs"
        for label, samples in (("computing", computing), ("asleep", sleeping))
        for rate, taken in samples.items()
    )
    worst = [max(percentile(taken, share) for taken in computing.values()) for share in (0.5, 0.99)]
    return [
        Figure("log_p50_us", worst[0], "µs", 10.0, note=f"{note}; {stats['num_dropped']} dropped"),
        Figure("log_p99_us", worst[1], "µs", 100.0, note="the worse of both rates"),
    ]


class _LogTimer:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._step = 0
        self._values = {f"train/value_{number}": float(number) for number in range(NUM_VALUES)}

    def samples(self, rate: int, count: int, pause: Callable[[float], None]) -> list[float]:
        """Microseconds of each call, ``pause`` taking what is between two."""
        taken = []
        for _ in range(count + _NUM_WARM_UP):
            pause(1.0 / rate)
            begun = time.perf_counter_ns()
            self._run.log(self._values, step=self._step)
            taken.append((time.perf_counter_ns() - begun) / 1000.0)
            self._step += 1
        return taken[_NUM_WARM_UP:]


def _compute(seconds: float) -> None:
    """Matrix products until the time is over, on this thread."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        _PRODUCT[:] = _MATRIX @ _MATRIX


_MATRIX = np.ones((160, 160), dtype=np.float32) / 160
_PRODUCT = np.empty_like(_MATRIX)
