"""The process that carries the topics into the store."""

from __future__ import annotations

from pathlib import Path

from holter.infra.components.component import Report
from holter.infra.components.daemon import Daemon, Launch
from holter.infra.errors import StackError
from holter.infra.kafka_admin import num_records_behind
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.loader.consumer import group_name
from holter.pipeline.store.dsn import DSN_VARIABLE


class LoaderProcess(Daemon):
    """The store's DSN goes by the environment: arguments can be seen by other users of the machine."""

    name = "loader"
    needs = ("topics", "store")
    stop_deadline_seconds = 20.0

    def launch(self) -> Launch:
        settings, state = self.context.settings, self.context.state()
        command = (
            *(settings.python, "-m", "holter.pipeline.loader", "--bootstrap", self.context.address("kafka")),
            *("--prefix", settings.prefix, "--instance", self.name, "--ready-file", str(self._ready_file)),
        )
        return Launch(
            command=command,
            facts=(self.context.address("store"),),
            environment={**self.context.python_environment(), DSN_VARIABLE: state.store_dsn or ""},
        )

    def prepare(self, report: Report) -> None:
        self._ready_file.parent.mkdir(parents=True, exist_ok=True)
        self._ready_file.unlink(missing_ok=True)

    def is_ready(self) -> bool:
        return self._ready_file.exists()

    def detail(self) -> str:
        kafka = KafkaSettings(self.context.address("kafka"), self.context.settings.prefix)
        try:
            return f"{num_records_behind(kafka, group_name(kafka.prefix))} records behind"
        except StackError:
            return "the broker does not answer"

    @property
    def _ready_file(self) -> Path:
        return self.context.layout.data(self.name) / "ready"
