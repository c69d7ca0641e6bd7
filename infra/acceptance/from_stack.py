"""The figures that need the real broker, cluster and store: they are measured on a stack of their own."""

from __future__ import annotations

import math

from rich.console import Console

from holter.infra.bench import frameworks_cost, latency
from holter.infra.bench.__main__ import on_own_stack
from holter.infra.bench.figures import Figure, percentile
from holter.infra.stack import Stack

_NUM_SAMPLES = 200
_NUM_BLOCKS = 200
_WITHOUT_STORE = frozenset({"store", "loader"})
_BROKER_ALONE = frozenset({"store", "loader", "watch", "jobmanager", "taskmanager"})


def from_stack(scale: float, console: Console) -> list[Figure]:
    return [
        *on_own_stack(_latency, _WITHOUT_STORE, scale, console),
        *on_own_stack(_overhead, _BROKER_ALONE, scale, console),
    ]


def unmeasured() -> list[Figure]:
    """The same figures where no stack is wanted."""
    note = "not measured: it needs the stack (without --no-stack)"
    return [
        Figure("detection_latency_seconds", math.nan, "s", 1.0, note=note),
        Figure("compute_overhead", math.nan, "%", 1.0, note=note),
    ]


def _latency(stack: Stack, environ: dict[str, str], scale: float) -> list[Figure]:
    _, samples = latency.measure(stack.state(), environ, max(10, round(_NUM_SAMPLES * scale)))
    seconds = [milliseconds / 1000.0 for milliseconds in samples.action]
    note = f"p99 of {len(seconds)}, p50 {percentile(seconds, 0.5):.3f} s: from log to the signed action in the trainer"
    return [Figure("detection_latency_seconds", percentile(seconds, 0.99), "s", 1.0, note=note)]


def _overhead(stack: Stack, environ: dict[str, str], scale: float) -> list[Figure]:
    figure, _ = frameworks_cost.step_figures("guard", environ, max(20, round(_NUM_BLOCKS * scale)))
    return [Figure("compute_overhead", figure.value, "%", 1.0, note=f"with the guard and without; {figure.note}")]
