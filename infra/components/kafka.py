"""The broker: one node in KRaft mode, from the jars of Maven Central."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from holter.infra.components.component import Report
from holter.infra.components.daemon import Daemon, Launch
from holter.infra.errors import ComponentFailed
from holter.infra.log4j import console_logging
from holter.infra.logs import tail
from holter.infra.ports import LOOPBACK

_ANSWER_TIMEOUT_SECONDS = 2.0
_FORMAT_TIMEOUT_SECONDS = 120
# ApiVersions, version 0, with no client id: the request that every broker answers, without authentication too.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)

_LOGGING = console_logging("INFO", {"state.change.logger": "WARN"})


class Kafka(Daemon):
    name = "kafka"
    needs = ("jars",)
    port_names = ("kafka", "kafka_controller")

    def launch(self) -> Launch:
        return Launch(
            command=(*self._java(), "kafka.Kafka", str(self._properties)),
            files={self._properties: self._server_properties(), self._log_config: _LOGGING},
            environment=self.context.environ,
        )

    def prepare(self, report: Report) -> None:
        if (self._data / "meta.properties").exists():
            return
        report("formatting its storage")
        self._data.mkdir(parents=True, exist_ok=True)
        self._properties.parent.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(self._server_properties())
        self._log_config.write_text(_LOGGING)
        self._format()

    def is_ready(self) -> bool:
        return answers(self.context.port("kafka"))

    def on_ready(self) -> None:
        self.context.state_file.set(kafka_bootstrap=self.context.address("kafka"))

    def _format(self) -> None:
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(self._properties)]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            done = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, timeout=_FORMAT_TIMEOUT_SECONDS, check=False
            )
        if done.returncode:
            raise ComponentFailed(self.name, "could not format its storage", self.log, tail(self.log))

    def _java(self) -> tuple[str, ...]:
        heap = self.context.settings.kafka_heap_megabytes
        # Code compiled quickly halves the processor time of a start, and moves more bytes than one machine's jobs make.
        return (
            self.context.java,
            "-XX:TieredStopAtLevel=1",
            f"-Xmx{heap}m",
            "-Xms128m",
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={self._log_config}",
            "-cp",
            f"{self.context.jars.kafka}/*",
        )

    def _server_properties(self) -> str:
        settings = server_settings(self.context.port("kafka"), self.context.port("kafka_controller"), self._data)
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    @property
    def _data(self) -> Path:
        return self.context.layout.data(self.name)

    @property
    def _properties(self) -> Path:
        return self.context.layout.config(self.name) / "server.properties"

    @property
    def _log_config(self) -> Path:
        return self.context.layout.config(self.name) / "log4j2.properties"


def server_settings(port: int, controller_port: int, data: Path) -> Mapping[str, str]:
    """The broker's settings: loopback only, one replica of everything, topics only where they were asked for."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "6000",  # how long a broker that was killed keeps its successor waiting
        "num.network.threads": "2",
        "num.io.threads": "4",
    }


def answers(port: int) -> bool:
    """Whether a broker there answers requests; one that only accepts connections is still starting."""
    try:
        with socket.create_connection((LOOPBACK, port), _ANSWER_TIMEOUT_SECONDS) as connection:
            connection.sendall(_API_VERSIONS_REQUEST)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def _cluster_id() -> str:
    # A leading dash would be taken for an option.
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
