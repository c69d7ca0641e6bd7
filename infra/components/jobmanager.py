"""Flink's JobManager, with the web interface."""

from __future__ import annotations

from holter.infra import flink_cluster, flink_config
from holter.infra.components.daemon import Daemon, Launch
from holter.infra.errors import StackError
from holter.infra.flink_rest import FlinkRest


class JobManager(Daemon):
    name = "jobmanager"
    needs = ("jars",)
    port_names = ("flink_rest", "jobmanager", "flink_blob", "jobmanager_metrics")

    def launch(self) -> Launch:
        config = flink_config.jobmanager_config(self.context)
        return Launch(
            command=flink_cluster.jobmanager_command(self.context),
            files=flink_cluster.config_files(self.context, self.name, config),
            facts=(self.context.jars.sources_digest(),),  # a running JVM keeps the classes it has loaded
            environment=flink_cluster.cluster_environment(self.context),
        )

    def is_ready(self) -> bool:
        try:
            FlinkRest(self.context.address("flink_rest"), timeout_seconds=2).version()
        except StackError:
            return False
        return True

    def on_ready(self) -> None:
        self.context.state_file.set(flink_rest=self.context.address("flink_rest"))
