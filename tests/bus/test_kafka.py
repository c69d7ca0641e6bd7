"""The suite of every bus, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from holter.pipeline.bus import Bus, BusError
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.pipe import PipeBus
from holter.pipeline.bus.settings import KafkaSettings, kafka_settings_from_env
from holter.schemas.topics import TELEMETRY
from tests.bus.test_contract import DEADLINE_SECONDS, BusContract

NOBODY = KafkaSettings("127.0.0.1:9", client={"bootstrap_timeout_ms": 500})


@pytest.mark.services
class TestKafkaBus(BusContract):
    @pytest.fixture
    def bus(self, stack: Any) -> Bus:
        return KafkaBus(KafkaSettings(stack.state().kafka_bootstrap))

    def test_a_missing_topic_is_named_with_what_to_do(self, stack: Any) -> None:
        bus = KafkaBus(KafkaSettings(stack.state().kafka_bootstrap, "elsewhere"))
        with pytest.raises(BusError, match="elsewhere-holter-telemetry does not exist: run `holter topics create`"):
            bus.reader([TELEMETRY], "latest", "reader")


@pytest.mark.services
class TestPipeBus(BusContract):
    @pytest.fixture
    def bus(self, stack: Any) -> Bus:
        return PipeBus(KafkaSettings(stack.state().kafka_bootstrap))

    def test_a_courier_that_is_killed_is_replaced(self, bus: PipeBus) -> None:
        publisher, reader = bus.publisher("publisher"), bus.reader([TELEMETRY], "latest", "reader")
        assert bus._child is not None
        bus._child._process.kill()
        bus._child._process.wait(DEADLINE_SECONDS)
        with pytest.raises(BusError, match="gone") as caught:
            reader.poll(DEADLINE_SECONDS)
        assert caught.value.retriable
        with pytest.raises(BusError, match="gone"):
            publisher.publish(TELEMETRY, b"killed/1", b"x")
        again = bus.publisher("publisher")
        again.publish(TELEMETRY, b"killed/1", b"x")
        assert again.flush(DEADLINE_SECONDS)
        again.close(DEADLINE_SECONDS)

    def test_what_was_delivered_is_told_when_asked(self, bus: PipeBus) -> None:
        publisher, reader = bus.publisher("publisher"), bus.reader([TELEMETRY], "latest", "reader")
        assert bus._child is not None
        for _ in range(3):
            publisher.publish(TELEMETRY, b"told/1", b"x")
            while not reader.poll(DEADLINE_SECONDS):
                pass
        assert bus._child.num_delivered == 0
        assert publisher.flush(DEADLINE_SECONDS)
        assert bus._child.num_delivered == 3
        assert publisher.flush(0.0)
        publisher.close(DEADLINE_SECONDS)


@pytest.mark.network
def test_a_courier_says_what_its_bus_says_and_ends() -> None:
    bus = PipeBus(NOBODY)
    with pytest.raises(BusError, match=r"no Kafka at 127\.0\.0\.1:9") as caught:
        bus.publisher("publisher")
    assert caught.value.retriable


@pytest.mark.network
def test_a_broker_that_is_not_there_can_be_tried_again() -> None:
    with pytest.raises(BusError, match=r"no Kafka at 127\.0\.0\.1:9") as caught:
        KafkaBus(NOBODY).publisher("publisher")
    assert caught.value.retriable


def test_settings_come_from_the_usual_variables_and_hide_secrets() -> None:
    environ = {
        "KAFKA_BOOTSTRAP_SERVERS": "a:9092,b:9092",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_SASL_USERNAME": "ada",
        "KAFKA_SASL_PASSWORD": "secret",
        "HOLTER_TOPIC_PREFIX": "acme",
    }
    settings = kafka_settings_from_env(environ)
    assert settings is not None
    assert settings.prefix == "acme"
    assert settings.client_config("x") == {
        "bootstrap_servers": ["a:9092", "b:9092"],
        "client_id": "x",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "secret",
    }
    assert "secret" not in repr(settings)
    assert kafka_settings_from_env({}) is None
