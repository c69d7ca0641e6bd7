"""What ``run.log`` of 12 values costs the training thread while the sender talks to a real broker."""

from __future__ import annotations

import time

from holter.infra.bench.figures import Figure, percentile
from holter.producers import init

NUM_VALUES = 12
_RATES = {20: 400, 500: 6000}
"""Steps a second, and how many are measured."""


def measure(environ: dict[str, str]) -> list[Figure]:
    run = init("bench", f"log-{time.time_ns()}", environ=environ)
    values = {f"train/value_{number}": float(number) for number in range(NUM_VALUES)}
    step = 0
    samples: dict[int, list[float]] = {}
    for rate, count in _RATES.items():
        samples[rate] = []
        for index in range(count + 50):
            time.sleep(1.0 / rate)
            begun = time.perf_counter_ns()
            run.log(values, step=step)
            spent = (time.perf_counter_ns() - begun) / 1000.0
            step += 1
            if index >= 50:
                samples[rate].append(spent)
    stats = run.stats()
    run.finish()
    note = ", ".join(
        f"{rate}/s: {percentile(taken, 0.5):.1f} and {percentile(taken, 0.99):.1f} µs"
        for rate, taken in samples.items()
    )
    worst = [max(percentile(taken, share) for taken in samples.values()) for share in (0.5, 0.99)]
    note += f"; {stats['num_dropped']} dropped"
    return [
        Figure("log_p50_us", worst[0], "µs", 10.0, note=note),
        Figure("log_p99_us", worst[1], "µs", 100.0, note="the worse of both rates"),
    ]
