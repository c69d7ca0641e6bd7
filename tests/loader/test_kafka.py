"""The loader process between a real broker and the real embedded store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holter.infra.topics import create_topics, plan_topics
from holter.pipeline.bus import BusError
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.loader.kafka_consumer import KafkaGroupConsumer
from holter.pipeline.store.client import connect
from holter.pipeline.store.dsn import DSN_VARIABLE
from holter.schemas import encode
from holter.schemas.telemetry import MetricBatch, SparseColumn, pack_floats, pack_ints
from holter.schemas.topics import TELEMETRY
from tests.store.embedded import EmbeddedStore

pytestmark = pytest.mark.services
NUM_STEPS = 3000


@pytest.fixture(scope="module")
def kafka(bootstrap: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap, "team")
    create_topics(settings, plan_topics(settings))
    return settings


class LoaderProcess:
    def __init__(self, kafka: KafkaSettings, store: EmbeddedStore, folder: Path) -> None:
        self._command = [sys.executable, "-m", "holter.pipeline.loader", "--bootstrap", kafka.bootstrap]
        self._command += ["--prefix", kafka.prefix, "--max-age-seconds", "0.2", "--instance", "one"]
        self._environ = {**os.environ, DSN_VARIABLE: store.dsn.url}
        self._log = folder / "loader.log"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, max_rows: int) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            command = [*self._command, "--max-rows", str(max_rows)]
            self._started.append(subprocess.Popen(command, env=self._environ, stdout=log, stderr=log))
        return self._started[-1]

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait(10)

    @property
    def log(self) -> str:
        return self._log.read_text()


@pytest.fixture
def loader(kafka: KafkaSettings, store: EmbeddedStore, tmp_path: Path) -> Iterator[LoaderProcess]:
    processes = LoaderProcess(kafka, store, tmp_path)
    yield processes
    processes.close()


def test_kills_and_another_batch_size_lose_and_double_nothing(
    kafka: KafkaSettings, store: EmbeddedStore, loader: LoaderProcess
) -> None:
    client = connect(store.dsn)

    def num_steps() -> int:
        return int(client.query("SELECT count() FROM steps WHERE run = 'r'").result_rows[0][0])

    for first, max_rows in ((0, 400), (NUM_STEPS // 2, 900)):
        _publish(kafka, range(first, first + NUM_STEPS // 2))
        process, before = loader.start(max_rows), num_steps()
        _await(lambda before=before: num_steps() > before, loader)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    _publish(kafka, range(NUM_STEPS - 50, NUM_STEPS))
    process = loader.start(5000)
    _await(lambda: num_steps() == NUM_STEPS, loader)
    _await(lambda: _num_dead_letters(client) == 3, loader)
    process.terminate()
    assert process.wait(30) == 0
    assert client.query("SELECT count(), sum(value) FROM metrics WHERE run = 'r'").result_rows == [
        (3 * NUM_STEPS, 3 * sum(range(NUM_STEPS)))
    ]
    client.close()


def test_a_loader_is_replaced_at_once_by_one_of_its_name(kafka: KafkaSettings) -> None:
    _publish(kafka, range(3))
    first = KafkaGroupConsumer.connect(kafka, "one")
    partition, end = _read_some(first)
    second = KafkaGroupConsumer.connect(kafka, "one")
    _read_some(second)
    with pytest.raises(BusError, match="--instance") as fenced:
        first.commit({partition: end})
    assert not fenced.value.retriable
    second.commit({partition: end})
    first.close()
    second.close()


def _read_some(consumer: KafkaGroupConsumer) -> tuple[tuple[str, int], int]:
    """The partition of the first messages that come, and the offset after them."""
    deadline = time.monotonic() + 60
    while not (found := consumer.poll(100)):
        assert time.monotonic() < deadline
    last = found[0][-1]
    return (last.topic, last.partition), last.offset + 1


def _publish(kafka: KafkaSettings, steps: range) -> None:
    """The steps, and one message that is no record."""
    publisher = KafkaBus(kafka).publisher("test")
    for step in steps:
        columns: dict[str, bytes | SparseColumn] = {f"m/{number}": pack_floats(float(step)) for number in range(3)}
        record = MetricBatch("p", "r", 1, 0, "s", step, pack_ints(step), pack_ints(step), columns)
        publisher.publish(TELEMETRY, b"p/r", encode(record))
    publisher.publish(TELEMETRY, b"p/r", b"\xc1")
    assert publisher.flush(30)
    publisher.close(5)


def _num_dead_letters(client: Any) -> int:
    sql = "SELECT count() FROM raw_dead_letters FINAL WHERE reason = 'malformed' AND topic = {topic:String}"
    return int(client.query(sql, {"topic": f"team-{TELEMETRY.name}"}).result_rows[0][0])


def _await(condition: Callable[[], bool], loader: LoaderProcess) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, loader.log
        time.sleep(0.05)
