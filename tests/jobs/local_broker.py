"""A Kafka broker in a folder, started from a folder of jars."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port

START_SECONDS = 120
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


@contextmanager
def running_broker(jars: Path, folder: Path) -> Iterator[str]:
    """Yields the bootstrap address; the broker is gone when the block ends."""
    port = free_port()
    properties = folder / "server.properties"
    properties.write_text(_PROPERTIES.format(port=port, controller=free_port(), folder=folder))
    _java(jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)).wait(START_SECONDS)
    log = folder / "broker.log"
    with log.open("wb") as output:
        process = _java(jars, "kafka.Kafka", str(properties), output=output.fileno())
    try:
        _await_port(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _java(jars: Path, *arguments: str, output: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    options = ["-Xmx256m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    return subprocess.Popen([java, *options, "-cp", f"{jars}/*", *arguments], stdout=output, stderr=subprocess.STDOUT)


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the broker did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
