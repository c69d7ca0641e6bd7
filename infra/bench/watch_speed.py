"""How fast `watch` works a backlog off: one slot, the broker on another core, wall clock, state kept, full windows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from holter.infra.bench.affinity import pin, split_cores
from holter.infra.bench.backlog import Backlog, fill
from holter.infra.bench.figures import Figure
from holter.infra.deployment import Deployment, deploy
from holter.infra.flink_rest import FlinkRest
from holter.infra.jars import find_jars
from holter.infra.jobs import next_issuer_epoch
from holter.infra.state import StackState
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.core.windows import WINDOW_STEPS
from holter.schemas.codec import windows
from holter.schemas.telemetry import LOSS
from holter.schemas.topics import WINDOWS

_TIMEOUT_SECONDS = 240.0


def measure(state: StackState, environ: dict[str, str], num_steps: int) -> list[Figure]:
    """Both forms of telemetry, one after the other, each in a prefix of its own."""
    measured, rest = split_cores()
    pin(state.processes["taskmanager"].pid, measured)
    pin(state.processes["kafka"].pid, rest)
    pin(state.processes["jobmanager"].pid, rest)
    single = _speed(state, environ, Backlog(num_steps, 1))
    batched = _speed(state, environ, Backlog(4 * num_steps, 32))
    return [
        Figure(
            "watch_records_per_second",
            single.steps_per_second,
            "/s",
            20_000,
            "higher",
            f"{num_steps:,} records of one step, 8 runs, 3 metrics; {single.cpu_us:.1f} µs of CPU each",
        ),
        Figure(
            "watch_steps_per_second_batched",
            batched.steps_per_second,
            "/s",
            50_000,
            "higher",
            f"{4 * num_steps:,} steps, 32 a record; {batched.cpu_us:.1f} µs of CPU each",
        ),
    ]


class Speed(NamedTuple):
    """Between the first third, while the JVM warms up, and the end."""

    steps_per_second: float
    cpu_us: float
    """Of the TaskManager, a step: what the wall clock would give with nothing else on the core."""


class Progress(NamedTuple):
    num_windows: int
    at_ms: int
    cpu_seconds: float


def _speed(state: StackState, environ: dict[str, str], backlog: Backlog) -> Speed:
    prefix = backlog.name
    settings = KafkaSettings(state.kafka_bootstrap or "", prefix)
    fill(settings, backlog)
    rest = FlinkRest(state.flink_rest or "")
    job_id = deploy(_deployment(state, environ, prefix), find_jars())
    taskmanager = psutil.Process(state.processes["taskmanager"].pid)
    try:
        num_windows = backlog.num_steps // WINDOW_STEPS
        return _between(_progress(settings, num_windows, lambda: sum(taskmanager.cpu_times()[:2])))
    finally:
        rest.cancel(job_id)
        while rest.live_job(f"holter-watch[{prefix}]") is not None:
            time.sleep(0.2)


def _deployment(state: StackState, environ: dict[str, str], prefix: str) -> Deployment:
    return Deployment(
        job="watch",
        jobmanager=state.flink_rest or "",
        bootstrap=state.kafka_bootstrap or "",
        prefix=prefix,
        issuer_epoch=next_issuer_epoch(state.issuer_epoch),
        python=sys.executable,
        worker_python=sys.executable,
        keys_file=state.keys_file,
        environ=environ,
    )


def _progress(settings: KafkaSettings, num_expected: int, cpu_seconds: Callable[[], float]) -> list[Progress]:
    """How many windows of the loss there were when; the broker's clock says when it took the newest of them."""
    reader = KafkaBus(settings).reader([WINDOWS], "earliest", "bench-windows")
    seen = [Progress(0, 0, 0.0)]
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while seen[-1].num_windows < num_expected and time.monotonic() < deadline:
        messages = [message for message in reader.poll(0.5) if windows.decode(message.value or b"").metric == LOSS]
        if messages:
            newest_ms = max(message.timestamp_ms for message in messages)
            seen.append(Progress(seen[-1].num_windows + len(messages), newest_ms, cpu_seconds()))
    reader.close()
    return seen


def _between(seen: list[Progress]) -> Speed:
    last = seen[-1]
    first = next((progress for progress in seen if progress.num_windows >= last.num_windows // 3), last)
    num_steps = WINDOW_STEPS * (last.num_windows - first.num_windows)
    return Speed(
        1000.0 * num_steps / max(1, last.at_ms - first.at_ms),
        1e6 * (last.cpu_seconds - first.cpu_seconds) / max(1, num_steps),
    )
