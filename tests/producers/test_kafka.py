"""A run over a real broker: a round trip, and a broker that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holter import producers
from holter.infra.jars import Jars
from holter.infra.topics import create_topics, plan_topics
from holter.pipeline.bus import Publisher, Reader
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.producers import Run
from holter.producers.latch import Permissions
from holter.producers.run import Beginning
from holter.schemas import codec, encode
from holter.schemas.control import LrFactor
from holter.schemas.telemetry import Ack, MetricBatch
from holter.schemas.topics import CONTROL, TELEMETRY
from tests.jobs.local_broker import running_broker
from tests.producers.watch import ISSUER, KEYRING, FakeWatch, await_

pytestmark = [pytest.mark.services, pytest.mark.timeout(150)]
PERMISSIONS = Permissions(frozenset({"lr_factor"}), frozenset({"lr_factor"}))
KEY = b"tests/run"


class MortalBroker:
    """A broker that the last test here ends."""

    def __init__(self, running: ExitStack, jars: Jars, folder: Path) -> None:
        self.address = running.enter_context(running_broker(jars.kafka, folder))
        self.end = running.close
        settings = KafkaSettings(self.address)
        create_topics(settings, plan_topics(settings))


@pytest.fixture(scope="module")
def mortal(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalBroker]:
    with ExitStack() as running:
        yield MortalBroker(running, jars, tmp_path_factory.mktemp("mortal"))


def start(bootstrap: str) -> Run:
    run = producers.init("tests", "run", keyring=KEYRING, environ={"KAFKA_BOOTSTRAP_SERVERS": bootstrap})
    run.begin(Beginning(7, PERMISSIONS))
    return run


class Broker:
    """The far side: everything that was published so far, and a way to send control."""

    def __init__(self, bootstrap: str) -> None:
        bus = KafkaBus(KafkaSettings(bootstrap))
        self.reader: Reader = bus.reader([TELEMETRY], "earliest", "test-reader")
        self.publisher: Publisher = bus.publisher("test-publisher")
        self.records: list[object] = []

    def read(self) -> list[object]:
        self.records += [codec.telemetry.decode(message.value or b"") for message in self.reader.poll(0.05)]
        return self.records

    def close(self) -> None:
        self.reader.close()
        self.publisher.close(1.0)


def test_metrics_go_out_and_a_signed_action_comes_back(mortal: MortalBroker) -> None:
    run, broker = start(mortal.address), Broker(mortal.address)
    for step in range(100):
        run.log({"train/loss": float(step)}, step, commit=True)
    action = FakeWatch().action([LrFactor(0.5)], attempt=7)
    control = run.control
    assert control is not None
    broker.publisher.publish(CONTROL, KEY, ISSUER.sign(encode(action)))
    await_(lambda: control.is_armed and control.is_pending, "latched")
    taken = control.take(100)
    assert taken is not None
    run.acknowledge(taken.action, "applied", 100, digest=taken.digest)
    await_(lambda: any(isinstance(record, Ack) for record in broker.read()), "the ack")
    run.finish()
    batches = [record for record in broker.read() if isinstance(record, MetricBatch)]
    assert [step for batch in batches for step in batch.step_numbers()] == list(range(100))
    assert run.stats()["num_waiting"] == 0
    broker.close()


def test_a_broker_that_goes_away_changes_nothing(mortal: MortalBroker, caplog: pytest.LogCaptureFixture) -> None:
    run = start(mortal.address)
    run.log({"train/loss": 0.0}, 0, commit=True)
    await_(lambda: run.stats()["num_sent"] >= 2, "the first records")
    mortal.end()
    for step in range(1, 50_000):
        run.log({"train/loss": float(step)}, step, commit=True)
    run.finish()
    assert run.stats()["num_waiting"] > 0
    assert not run.enabled
    assert len([line for line in caplog.messages if "cannot reach" in line]) <= 1
