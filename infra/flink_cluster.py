"""How the Flink cluster out of the apache-flink wheel is configured and started.

The JVMs are started directly instead of by the wheel's scripts: these start three more JVMs to compute memory sizes,
which are given here. What runs is the same.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holter.infra.context import StackContext
from holter.infra.errors import StackError
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

_TASK_OFF_HEAP_MEGABYTES = 64
_NETWORK_MEGABYTES = 64
_FRAMEWORK_HEAP_MEGABYTES = 64
_FRAMEWORK_OFF_HEAP_MEGABYTES = 64
_METASPACE_MEGABYTES = 192


# All goes to standard output, which the stack keeps in one file a component.
LOG_CONFIG = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1.} %m%n
logger.checkpoints.name = org.apache.flink.runtime.checkpoint
logger.checkpoints.level = WARN
logger.tokens.name = org.apache.flink.runtime.security.token
logger.tokens.level = ERROR
"""


@dataclass(frozen=True)
class FlinkDistribution:
    """The distribution in an installed apache-flink wheel."""

    home: Path

    @property
    def version(self) -> str:
        text = (self.home / "version.py").read_text()
        match = re.search(r'__version__ = "([^"]+)"', text)
        return match.group(1) if match else "unknown"

    @property
    def jars(self) -> list[Path]:
        """What cluster and client load: flink-python too, so that the parent loads pemja once for all jobs."""
        return [*sorted((self.home / "lib").glob("*.jar")), *(self.home / "opt").glob("flink-python-*.jar")]

    @property
    def jvm_options(self) -> list[str]:
        """The module openings that Flink's own configuration asks for."""
        text = (self.home / "conf" / "config.yaml").read_text()
        return re.findall(r"--add-(?:exports|opens)=\S+", text)


def find_flink() -> FlinkDistribution:
    """Raises:
    StackError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("pyflink")
    if spec is None or spec.origin is None:
        raise StackError("PyFlink is not installed: run `pip install 'holter[flink]'` with Python 3.10 to 3.12")
    return FlinkDistribution(Path(spec.origin).parent)


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
    task_heap = settings.taskmanager_heap_megabytes - _FRAMEWORK_HEAP_MEGABYTES
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
        "taskmanager.memory.framework.heap.size": f"{_FRAMEWORK_HEAP_MEGABYTES}m",
        "taskmanager.memory.framework.off-heap.size": f"{_FRAMEWORK_OFF_HEAP_MEGABYTES}m",
        "taskmanager.memory.task.heap.size": f"{task_heap}m",
        "taskmanager.memory.task.off-heap.size": f"{_TASK_OFF_HEAP_MEGABYTES}m",
        "taskmanager.memory.network.min": f"{_NETWORK_MEGABYTES}m",
        "taskmanager.memory.network.max": f"{_NETWORK_MEGABYTES}m",
        "taskmanager.memory.managed.size": "0m",
        "taskmanager.memory.jvm-metaspace.size": f"{_METASPACE_MEGABYTES}m",
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
    return {folder / "config.yaml": render_config(config), folder / "log4j.properties": LOG_CONFIG}


def jobmanager_command(context: StackContext) -> tuple[str, ...]:
    heap = context.settings.jobmanager_heap_megabytes
    # It coordinates and computes nothing: code compiled quickly brings it up sooner.
    memory = [f"-Xmx{heap}m", f"-Xms{heap // 2}m", f"-XX:MaxMetaspaceSize={_METASPACE_MEGABYTES}m"]
    memory.append("-XX:TieredStopAtLevel=1")
    main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    config = str(context.layout.config("jobmanager"))
    return (*jvm_command(context, "jobmanager", memory), main, "--configDir", config, "--executionMode", "cluster")


def taskmanager_command(context: StackContext) -> tuple[str, ...]:
    heap = context.settings.taskmanager_heap_megabytes
    direct = _FRAMEWORK_OFF_HEAP_MEGABYTES + _TASK_OFF_HEAP_MEGABYTES + _NETWORK_MEGABYTES
    memory = [
        f"-Xmx{heap}m",
        f"-Xms{heap // 2}m",
        f"-XX:MaxDirectMemorySize={direct}m",
        f"-XX:MaxMetaspaceSize={_METASPACE_MEGABYTES}m",
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


def link_jars(folder: Path, jars: Sequence[Path]) -> None:
    """Makes a folder of links to these jars and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {jar.name: jar for jar in jars}
    for link in folder.iterdir():
        if link.name not in wanted or not link.exists() or link.resolve() != wanted[link.name].resolve():
            link.unlink()
    for name, jar in wanted.items():
        if not (folder / name).exists():
            (folder / name).symlink_to(jar)


def render_config(config: Config) -> str:
    """Flink's YAML; every value is quoted as JSON, which YAML contains."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items())
