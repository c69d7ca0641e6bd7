"""How fast `watch` works a backlog off: one slot, the broker on another core, wall clock, state kept, full windows."""

from __future__ import annotations

import sys
import time

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
    single = _steps_per_second(state, environ, Backlog(num_steps, 1))
    batched = _steps_per_second(state, environ, Backlog(4 * num_steps, 32))
    note = f"{num_steps:,} records of one step, 8 runs, 3 metrics"
    return [
        Figure("watch_records_per_second", single, "/s", 20_000, "higher", note),
        Figure(
            "watch_steps_per_second_batched", batched, "/s", 50_000, "higher", f"{4 * num_steps:,} steps, 32 a record"
        ),
    ]


def _steps_per_second(state: StackState, environ: dict[str, str], backlog: Backlog) -> float:
    prefix = backlog.name
    settings = KafkaSettings(state.kafka_bootstrap or "", prefix)
    fill(settings, backlog)
    rest = FlinkRest(state.flink_rest or "")
    job_id = deploy(_deployment(state, environ, prefix), find_jars())
    try:
        return _rate(_window_times(settings, backlog.num_steps // WINDOW_STEPS))
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


def _window_times(settings: KafkaSettings, num_expected: int) -> list[int]:
    """When the broker took each window of the loss, in ms: a window is 100 steps done."""
    reader = KafkaBus(settings).reader([WINDOWS], "earliest", "bench-windows")
    times: list[int] = []
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while len(times) < num_expected and time.monotonic() < deadline:
        for message in reader.poll(0.5):
            if windows.decode(message.value or b"").metric == LOSS:
                times.append(message.timestamp_ms)
    reader.close()
    return sorted(times)


def _rate(times: list[int]) -> float:
    """Steps a second between the first tenth, while the JVM warms up, and the end."""
    start = len(times) // 10
    return 1000.0 * WINDOW_STEPS * (len(times) - 1 - start) / max(1, times[-1] - times[start])
