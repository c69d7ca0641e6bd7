"""Flink's TaskManager, which runs the Python functions."""

from __future__ import annotations

from holter.infra import flink_cluster, flink_config
from holter.infra.components.daemon import Daemon, Launch
from holter.infra.errors import StackError
from holter.infra.flink_rest import FlinkRest


class TaskManager(Daemon):
    """Needs no JobManager to start, it looks for one until it is found.

    Its resource id stays the same, so that the JobManager replaces a lost TaskManager by the next one at once instead
    of at a heartbeat's timeout; its data port is a new one at each start, which tells the two apart.
    """

    name = "taskmanager"
    needs = ("jars",)
    port_names = ("taskmanager", "taskmanager_data", "taskmanager_metrics")
    fresh_port_names = ("taskmanager_data",)
    hung_after_seconds = 60.0  # it may have to find a JobManager that starts at the same time

    def launch(self) -> Launch:
        config = flink_config.taskmanager_config(self.context)
        return Launch(
            command=flink_cluster.taskmanager_command(self.context),
            files=flink_cluster.config_files(self.context, self.name, config),
            facts=(self.context.jars.sources_digest(),),  # a running JVM keeps the classes it has loaded
            environment=flink_cluster.cluster_environment(self.context),
        )

    def is_ready(self) -> bool:
        rest = FlinkRest(self.context.address("flink_rest"), timeout_seconds=2)
        try:
            return self.context.port("taskmanager_data") in rest.taskmanager_data_ports()
        except StackError:
            return False
