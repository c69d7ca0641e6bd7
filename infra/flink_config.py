"""The settings of the local Flink cluster, and those that every job of ours needs on any cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holter.infra.context import StackContext
from holter.infra.ports import LOOPBACK

Config = Mapping[str, str]

# Options of a job, not of a cluster: they hold wherever the job is submitted to.
JOB_OPTIONS: Config = {
    "execution.buffer-timeout.interval": "0 ms",
    "python.execution-mode": "thread",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff": "1 s",
    "restart-strategy.exponential-delay.max-backoff": "10 s",
    "restart-strategy.exponential-delay.reset-backoff-threshold": "1 min",
}

TASK_OFF_HEAP_MEGABYTES = 64
NETWORK_MEGABYTES = 64
FRAMEWORK_HEAP_MEGABYTES = 64
FRAMEWORK_OFF_HEAP_MEGABYTES = 64
METASPACE_MEGABYTES = 192


def jobmanager_config(context: StackContext) -> Config:
    return {
        **_common_config(context),
        "jobmanager.bind-host": LOOPBACK,
        "rest.bind-address": LOOPBACK,
        "rest.bind-port": str(context.port("flink_rest")),
        "blob.server.port": str(context.port("flink_blob")),
        "metrics.internal.query-service.port": str(context.port("jobmanager_metrics")),
        "jobmanager.memory.heap.size": f"{context.settings.jobmanager_heap_megabytes}m",
        "web.submit.enable": "false",
    }


def taskmanager_config(context: StackContext) -> Config:
    """Every part of the memory is given, because only Flink's scripts would compute the missing ones."""
    settings = context.settings
    task_heap = settings.taskmanager_heap_megabytes - FRAMEWORK_HEAP_MEGABYTES
    return {
        **_common_config(context),
        "taskmanager.resource-id": "holter-1",
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.rpc.port": str(context.port("taskmanager")),
        "taskmanager.data.port": str(context.port("taskmanager_data")),
        "metrics.internal.query-service.port": str(context.port("taskmanager_metrics")),
        "taskmanager.numberOfTaskSlots": str(settings.num_task_slots),
        "taskmanager.cpu.cores": str(float(settings.num_task_slots)),
        "taskmanager.memory.framework.heap.size": f"{FRAMEWORK_HEAP_MEGABYTES}m",
        "taskmanager.memory.framework.off-heap.size": f"{FRAMEWORK_OFF_HEAP_MEGABYTES}m",
        "taskmanager.memory.task.heap.size": f"{task_heap}m",
        "taskmanager.memory.task.off-heap.size": f"{TASK_OFF_HEAP_MEGABYTES}m",
        "taskmanager.memory.network.min": f"{NETWORK_MEGABYTES}m",
        "taskmanager.memory.network.max": f"{NETWORK_MEGABYTES}m",
        "taskmanager.memory.managed.size": "0m",
        "taskmanager.memory.jvm-metaspace.size": f"{METASPACE_MEGABYTES}m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
    }


def _common_config(context: StackContext) -> Config:
    layout = context.layout
    return {
        **JOB_OPTIONS,
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.rpc.port": str(context.port("jobmanager")),
        "rest.address": LOOPBACK,
        "rest.port": str(context.port("flink_rest")),
        "parallelism.default": "1",
        "classloader.parent-first-patterns.additional": "pemja.",
        "execution.checkpointing.interval": f"{round(context.settings.checkpoint_interval_seconds * 1000)} ms",
        "execution.checkpointing.dir": layout.checkpoints.as_uri(),
        "execution.checkpointing.savepoint-dir": layout.savepoints.as_uri(),
        "execution.checkpointing.num-retained": "2",
        "heartbeat.interval": "3 s",
        "heartbeat.timeout": "15 s",
        "io.tmp.dirs": str(layout.data("flink")),
        "python.executable": context.settings.python,
        "python.client.executable": context.settings.python,
    }


def render_config(config: Config) -> str:
    """Flink's YAML; every value is quoted as JSON, which YAML contains."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items())
