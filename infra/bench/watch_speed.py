"""How fast `watch` works a backlog off: one slot, the broker on another core, wall clock, state kept, full windows.

Beside it, on the same backlog in the same minutes, what a keyed Python function on Flink does that judges nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from holter.infra.bench.affinity import pin, split_cores
from holter.infra.bench.backlog import Backlog, fill
from holter.infra.bench.figures import Figure
from holter.infra.deployment import Deployment, deploy
from holter.infra.flink_rest import FlinkRest
from holter.infra.flink_submit import find_job_script
from holter.infra.jars import find_jars
from holter.infra.jobs import JobName, name_on_cluster, next_issuer_epoch
from holter.infra.state import StackState
from holter.pipeline.bus import Message, Reader
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.core.windows import WINDOW_STEPS
from holter.schemas.codec import windows
from holter.schemas.telemetry import LOSS
from holter.schemas.topics import WINDOWS

_TIMEOUT_SECONDS = 240.0
_TARGET, _TARGET_BATCHED = 20_000, 50_000
_BARE_SPEED = 45_000
"""What the best bare function does where the targets were set; elsewhere the shares of it are what counts."""
_BARE_JOB = "bare"


def measure(state: StackState, environ: dict[str, str], num_steps: int) -> list[Figure]:
    """Both forms of telemetry, one after the other, each in a prefix of its own."""
    measured, rest = split_cores()
    pin(state.processes["taskmanager"].pid, measured)
    pin(state.processes["kafka"].pid, rest)
    pin(state.processes["jobmanager"].pid, rest)
    stack = _Stack(state, environ)
    singles, batches = Backlog(num_steps, 1), Backlog(4 * num_steps, 32)
    fill(stack.settings(singles), singles)
    single = stack.speed(singles, _WATCH)
    bare = stack.speed(singles, _BARE)
    fill(stack.settings(batches), batches)
    batched = stack.speed(batches, _WATCH)
    told = f"{num_steps:,} records of one step, 8 runs, 3 metrics; {single.cpu_us:.1f} µs of CPU each"
    told_batched = f"{4 * num_steps:,} steps, 32 a record; {batched.cpu_us:.1f} µs of CPU each"
    against = f"of {bare.steps_per_second:,.0f} records/s of a keyed Python function that judges nothing"
    speed, speed_batched = single.steps_per_second, batched.steps_per_second
    share, share_batched = speed / bare.steps_per_second, speed_batched / bare.steps_per_second
    return [
        Figure("watch_records_per_second", speed, "/s", _TARGET, "higher", told),
        Figure("watch_share_of_bare", share, "", _TARGET / _BARE_SPEED, "higher", against),
        Figure("watch_steps_per_second_batched", speed_batched, "/s", _TARGET_BATCHED, "higher", told_batched),
        Figure("watch_batched_share_of_bare", share_batched, "", _TARGET_BATCHED / _BARE_SPEED, "higher", against),
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


@dataclass(frozen=True)
class _Measured:
    """A job, and how it is told how far it has come: its outputs, one for each window of the loss."""

    job: JobName
    script: str
    marks: Callable[[Message], bool]


def _is_loss_window(message: Message) -> bool:
    return bool(message.value) and windows.decode(message.value or b"").metric == LOSS


_WATCH = _Measured("watch", "watch", _is_loss_window)
_BARE = _Measured("window_stats", _BARE_JOB, lambda message: not message.value)


@dataclass(frozen=True)
class _Stack:
    state: StackState
    environ: dict[str, str]

    def settings(self, backlog: Backlog) -> KafkaSettings:
        return KafkaSettings(self.state.kafka_bootstrap or "", backlog.name)

    def speed(self, backlog: Backlog, measured: _Measured) -> Speed:
        rest = FlinkRest(self.state.flink_rest or "")
        job_id = deploy(self._deployment(backlog.name, measured), find_jars())
        taskmanager = psutil.Process(self.state.processes["taskmanager"].pid)
        try:
            num_windows = backlog.num_steps // WINDOW_STEPS
            reader = KafkaBus(self.settings(backlog)).reader([WINDOWS], "earliest", "bench-windows")
            return _between(_progress(reader, measured, num_windows, lambda: sum(taskmanager.cpu_times()[:2])))
        finally:
            rest.cancel(job_id)
            while rest.live_job(name_on_cluster(measured.job, backlog.name)) is not None:
                time.sleep(0.2)

    def _deployment(self, prefix: str, measured: _Measured) -> Deployment:
        state = self.state
        return Deployment(
            job=measured.job,
            script=find_job_script(measured.script),
            jobmanager=state.flink_rest or "",
            bootstrap=state.kafka_bootstrap or "",
            prefix=prefix,
            issuer_epoch=next_issuer_epoch(state.issuer_epoch),
            python=sys.executable,
            worker_python=sys.executable,
            keys_file=state.keys_file,
            environ=self.environ,
        )


def _progress(
    reader: Reader, measured: _Measured, num_expected: int, cpu_seconds: Callable[[], float]
) -> list[Progress]:
    """How many windows there were when; the broker's clock says when it took the newest of them."""
    seen = [Progress(0, 0, 0.0)]
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while seen[-1].num_windows < num_expected and time.monotonic() < deadline:
        messages = [message for message in reader.poll(0.5) if measured.marks(message)]
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
