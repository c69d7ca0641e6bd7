"""How fast the loader works a backlog off into the store, the loader on one core."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from holter.infra.bench.affinity import split_cores
from holter.infra.bench.backlog import Backlog, fill
from holter.infra.bench.figures import Figure
from holter.infra.state import StackState
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.store.client import connect
from holter.pipeline.store.dsn import parse_dsn

_TIMEOUT_SECONDS = 180.0
_COUNT = "SELECT count() FROM raw_metrics WHERE project = {project:String}"
_POLL_SECONDS = 0.1


def measure(state: StackState, environ: dict[str, str], num_steps: int) -> list[Figure]:
    """Single-step records of 12 values, then of 3."""
    wide = _values_per_second(state, environ, Backlog(num_steps, 1, 12))
    narrow = _values_per_second(state, environ, Backlog(num_steps, 1, 3))
    note = f"{num_steps:,} single-step records of 12 values; of 3 values {narrow:,.0f}/s"
    return [Figure("loader_values_per_second", wide, "/s", 200_000, "higher", note)]


def _values_per_second(state: StackState, environ: dict[str, str], backlog: Backlog) -> float:
    prefix = backlog.name
    fill(KafkaSettings(state.kafka_bootstrap or "", prefix), backlog)
    core, _ = split_cores()
    command = [sys.executable, "-m", "holter.pipeline.loader", "--bootstrap", state.kafka_bootstrap or "",
               "--prefix", prefix]  # fmt: skip
    environ = {**environ, "HOLTER_STORE_DSN": state.store_dsn or ""}
    process = subprocess.Popen(command, env=environ, preexec_fn=lambda: os.sched_setaffinity(0, core))
    try:
        return _rate(state.store_dsn or "", prefix, backlog.num_steps * backlog.num_metrics)
    finally:
        process.terminate()
        process.wait(30.0)


def _rate(dsn: str, project: str, num_expected: int) -> float:
    """Values a second from the first batch seen to the last."""
    client = connect(parse_dsn(dsn))
    first: tuple[float, int] | None = None
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    count, now = 0, time.monotonic()
    while count < num_expected and now < deadline:
        time.sleep(_POLL_SECONDS)
        count = client.query(_COUNT, {"project": project}).result_rows[0][0]
        now = time.monotonic()
        if first is None and count:
            first = (now, count)
    if first is None or now == first[0]:
        return 0.0
    return (count - first[1]) / (now - first[0])
