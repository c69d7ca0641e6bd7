"""The bus over kafka-python.

Limits of the library that shape this: its producer has no bound on memory (the caller bounds its queue), building
one blocks until a broker answers, a producer that met a non-retriable error stays broken (it is closed and built
anew), and neither survives a fork.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from holter.pipeline.bus.contract import BusError, Message, Start
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.topics import MAX_MESSAGE_BYTES, Topic, TopicNames

_CONNECT_TIMEOUT_MS = 5000
_METADATA_TIMEOUT_MS = 10_000


class KafkaBus:
    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._names = TopicNames(settings.prefix)

    def publisher(self, client_id: str, on_delivered: Callable[[], None] | None = None) -> KafkaPublisher:
        """Blocks until a broker answers. ``on_delivered`` is called for each acknowledged message, on a thread of
        the client's.

        Raises:
            BusError: none did within 5 s, or the settings are refused.
        """
        config = self._settings.client_config(client_id)
        return KafkaPublisher(_connect(KafkaProducer, {**_PRODUCER, **config}), self._names, on_delivered)

    def reader(self, topics: Sequence[Topic], start: Start, client_id: str) -> KafkaReader:
        """Blocks until a broker answers and the topics exist.

        Raises:
            BusError: none did within 5 s, or a topic is missing.
        """
        config = self._settings.client_config(client_id)
        return KafkaReader(_connect(KafkaConsumer, {**_CONSUMER, **config}), topics, start, self._names)


_PRODUCER: dict[str, Any] = {
    "enable_idempotence": True,  # explicit: otherwise conflicting options drop it with a warning
    "linger_ms": 0,
    "compression_type": "lz4",
    "allow_auto_create_topics": False,
    "max_request_size": MAX_MESSAGE_BYTES,
    "max_block_ms": _METADATA_TIMEOUT_MS,
    "bootstrap_timeout_ms": _CONNECT_TIMEOUT_MS,
    "metrics_enabled": False,
}
_CONSUMER: dict[str, Any] = {
    "group_id": None,
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "allow_auto_create_topics": False,
    "bootstrap_timeout_ms": _CONNECT_TIMEOUT_MS,
    "metrics_enabled": False,
}


def _connect(kind: Any, config: dict[str, Any]) -> Any:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # an absent broker is reported once, by the caller
    try:
        return kind(**config)
    except KafkaError as error:
        retriable = bool(getattr(error, "retriable", False)) or "NoBrokers" in type(error).__name__
        raise BusError(f"no Kafka at {','.join(config['bootstrap_servers'])}: {error}", retriable=retriable) from None


class KafkaPublisher:
    def __init__(self, producer: Any, names: TopicNames, on_delivered: Callable[[], None] | None) -> None:
        self._producer = producer
        self._on_delivered = on_delivered
        self._names = {topic.name: name for name, topic in names.by_full_name.items()}
        self._pid = os.getpid()
        self._refused: Exception | None = None

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        if self._refused is not None:
            raise BusError(f"an earlier message was refused: {self._refused}", retriable=False)
        if os.getpid() != self._pid:
            raise BusError("a publisher does not survive a fork: make one in the child", retriable=False)
        try:
            sent = self._producer.send(self._names[topic.name], value=value, key=key).add_errback(self._refuse)
            if self._on_delivered is not None:
                sent.add_callback(self._delivered)
        except KafkaError as error:
            raise BusError(str(error), retriable=bool(getattr(error, "retriable", False))) from None

    def flush(self, timeout_seconds: float) -> bool:
        try:
            self._producer.flush(timeout=timeout_seconds)
        except KafkaError:
            return False
        return self._refused is None

    def close(self, timeout_seconds: float) -> None:
        try:
            self._producer.close(timeout=timeout_seconds)
        except Exception:  # kafka-python's close can raise whatever its sender thread met
            logging.getLogger(__name__).debug("closing the producer", exc_info=True)

    def _delivered(self, _: object) -> None:
        assert self._on_delivered is not None
        self._on_delivered()

    def _refuse(self, error: Exception) -> None:
        self._refused = error


class KafkaReader:
    def __init__(self, consumer: Any, topics: Sequence[Topic], start: Start, names: TopicNames) -> None:
        self._consumer = consumer
        self._names = {full: topic.name for full, topic in names.by_full_name.items()}
        try:
            partitions = [part for topic in topics for part in self._partitions(names.of(topic))]
            consumer.assign(partitions)
            self._ends: dict[TopicPartition, int] = consumer.end_offsets(partitions)
            self._seek(partitions, start)
        except (KafkaError, BusError) as error:
            self.close()
            raise error if isinstance(error, BusError) else BusError(str(error), retriable=True) from None

    def poll(self, timeout_seconds: float) -> list[Message]:
        try:
            polled = self._consumer.poll(timeout_ms=int(timeout_seconds * 1000))
        except KafkaError as error:
            raise BusError(str(error), retriable=True) from None
        return [
            Message(name, record.partition, record.offset, record.timestamp, record.key, record.value)
            for partition, records in polled.items()
            for name in (self._names[partition.topic],)
            for record in records
        ]

    def caught_up(self) -> bool:
        return all(self._consumer.position(partition) >= end for partition, end in self._ends.items())

    def close(self) -> None:
        try:
            self._consumer.close()
        except Exception:
            logging.getLogger(__name__).debug("closing the consumer", exc_info=True)

    def _partitions(self, topic: str) -> list[TopicPartition]:
        numbers = self._consumer.partitions_for_topic(topic)
        if not numbers:
            raise BusError(f"topic {topic} does not exist: run `holter topics create`", retriable=True)
        return [TopicPartition(topic, number) for number in sorted(numbers)]

    def _seek(self, partitions: list[TopicPartition], start: Start) -> None:
        if start == "earliest":
            self._consumer.seek_to_beginning(*partitions)
        elif start == "latest":
            for partition in partitions:
                self._consumer.seek(partition, self._ends[partition])
        else:
            found = self._consumer.offsets_for_times(dict.fromkeys(partitions, start))
            for partition in partitions:
                at = found.get(partition)
                self._consumer.seek(partition, self._ends[partition] if at is None else at.offset)


if TYPE_CHECKING:
    from holter.pipeline.bus.contract import Bus

    _conforms: type[Bus] = KafkaBus
