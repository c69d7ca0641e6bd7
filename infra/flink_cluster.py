"""How the JVMs of the local Flink cluster are started.

They are started directly instead of by the wheel's scripts: these start three more JVMs to compute memory sizes,
which are given here. What runs is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holter.infra import flink_config
from holter.infra.context import StackContext
from holter.infra.flink_config import Config, render_config
from holter.infra.flink_distribution import find_flink
from holter.infra.log4j import console_logging

_LOGGING = console_logging(
    "INFO",
    {
        "org.apache.flink.runtime.checkpoint": "WARN",  # two lines every few seconds
        "org.apache.flink.runtime.security.token": "ERROR",
        "org.apache.flink.metrics.MetricGroup": "ERROR",  # the sink registers one name anew at every checkpoint
    },
)


def jvm_command(context: StackContext, component: str, memory: Sequence[str]) -> tuple[str, ...]:
    """``java`` with everything but the main class. The web interface shows the file named by ``log.file``."""
    log_config = context.layout.config(component) / "log4j.properties"
    return (
        context.java,
        *memory,
        "-XX:+UseSerialGC",
        *find_flink().jvm_options,
        f"-Dlog.file={context.layout.log(component)}",
        f"-Dlog4j.configurationFile={log_config.as_uri()}",
        "-cp",
        f"{context.layout.config('flink-lib')}/*",
    )


def config_files(context: StackContext, component: str, config: Config) -> dict[Path, str]:
    """The configuration folder of a JVM."""
    folder = context.layout.config(component)
    return {folder / "config.yaml": render_config(config), folder / "log4j.properties": _LOGGING}


def jobmanager_command(context: StackContext) -> tuple[str, ...]:
    heap = context.settings.jobmanager_heap_megabytes
    # It coordinates and computes nothing: code compiled quickly brings it up sooner.
    memory = [f"-Xmx{heap}m", f"-Xms{heap // 2}m", f"-XX:MaxMetaspaceSize={flink_config.METASPACE_MEGABYTES}m"]
    memory.append("-XX:TieredStopAtLevel=1")
    main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    config = str(context.layout.config("jobmanager"))
    return (*jvm_command(context, "jobmanager", memory), main, "--configDir", config, "--executionMode", "cluster")


def taskmanager_command(context: StackContext) -> tuple[str, ...]:
    heap = context.settings.taskmanager_heap_megabytes
    direct = (
        flink_config.FRAMEWORK_OFF_HEAP_MEGABYTES
        + flink_config.TASK_OFF_HEAP_MEGABYTES
        + flink_config.NETWORK_MEGABYTES
    )
    memory = [
        f"-Xmx{heap}m",
        f"-Xms{heap // 2}m",
        f"-XX:MaxDirectMemorySize={direct}m",
        f"-XX:MaxMetaspaceSize={flink_config.METASPACE_MEGABYTES}m",
    ]
    main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    config = str(context.layout.config("taskmanager"))
    return (*jvm_command(context, "taskmanager", memory), main, "--configDir", config)


def cluster_environment(context: StackContext) -> dict[str, str]:
    """What cluster and client need to find Flink and, inside the JVM, Python."""
    distribution = find_flink()
    return {
        **context.python_environment(),
        "FLINK_HOME": str(distribution.home),
        "FLINK_LIB_DIR": str(context.layout.config("flink-lib")),
        "FLINK_PLUGINS_DIR": str(distribution.home / "plugins"),
        "FLINK_LOG_DIR": str(context.layout.logs),
        "_FLINK_HOME_DETERMINED": "1",
    }
