"""The loader as a member of one group that commits what is in the store, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CommitFailedError, FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata

from holter.pipeline.bus import BusError
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.loader.batch import Partition
from holter.pipeline.loader.consumer import GROUP, group_name
from holter.pipeline.loader.decode import Message
from holter.schemas.topics import TOPICS, TopicNames

MAX_POLL_RECORDS = 4000
_CONNECT_TIMEOUT_MS = 5000
# For so long after a kill the partitions of a dead member are read by nobody, but by one of its own name at once.
_SESSION_TIMEOUT_MS = 10_000
_logger = logging.getLogger(__name__)


class KafkaGroupConsumer:
    """All topics of one prefix, over kafka-python."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._is_paused = False

    @classmethod
    def connect(cls, settings: KafkaSettings, instance: str | None = None) -> KafkaGroupConsumer:
        """Blocks until a broker answers.

        Args:
            instance: name of this member, which no other of the group has: one that is started again under it takes
                its partitions over at once, and fences off the one before should that still run.

        Raises:
            BusError: none did within 5 s, or the settings are refused.
        """
        try:
            consumer = KafkaConsumer(**_options(settings, instance), **settings.client_config(GROUP))
        except (KafkaError, AssertionError, ValueError) as error:
            retriable = isinstance(error, KafkaError)
            raise BusError(f"no Kafka at {settings.bootstrap}: {error}", retriable=retriable) from None
        consumer.subscribe([TopicNames(settings.prefix).of(topic) for topic in TOPICS])
        return cls(consumer)

    def poll(self, timeout_ms: int) -> Sequence[Sequence[Message]]:
        try:
            if self._is_paused:
                self._consumer.resume(*self._consumer.paused())
                self._is_paused = False
            return list(self._consumer.poll(timeout_ms=timeout_ms).values())
        except KafkaError as error:
            raise _bus_error(error) from None

    def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        offsets = {TopicPartition(*part): OffsetAndMetadata(offset) for part, offset in next_offsets.items()}
        try:
            self._consumer.commit(offsets)
        except CommitFailedError:
            # The partitions moved to another member, which reads this again; identity makes it one row.
            _logger.info("the group was rebalanced before a commit; the records are read once more")
        except KafkaError as error:
            raise _bus_error(error) from None

    def keep_alive(self) -> None:
        try:
            self._consumer.pause(*self._consumer.assignment())
            self._is_paused = True
            # A rebalance inside poll may bring partitions that are not paused: what they deliver is put back.
            for partition, records in self._consumer.poll(timeout_ms=0).items():
                self._consumer.seek(partition, records[0].offset)
        except KafkaError as error:
            raise _bus_error(error) from None

    def close(self) -> None:
        try:
            self._consumer.close(autocommit=False)
        except Exception:  # kafka-python's close can raise whatever it met
            _logger.debug("closing the consumer", exc_info=True)


def _bus_error(error: KafkaError) -> BusError:
    if isinstance(error, FencedInstanceIdError):
        return BusError("another loader was started under the same --instance: this one ends", retriable=False)
    return BusError(str(error), retriable=True)


def _options(settings: KafkaSettings, instance: str | None) -> dict[str, Any]:
    return {
        "group_id": group_name(settings.prefix),
        "group_instance_id": instance,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "allow_auto_create_topics": False,
        "max_poll_records": MAX_POLL_RECORDS,
        "max_partition_fetch_bytes": 4 * 1024 * 1024,
        # In pure Python a checksum costs more than all the rest of a record; the broker checks it on arrival.
        "check_crcs": find_spec("crc32c") is not None,
        "metadata_max_age_ms": 30_000,
        "session_timeout_ms": _SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": _SESSION_TIMEOUT_MS // 4,
        "bootstrap_timeout_ms": _CONNECT_TIMEOUT_MS,
        "metrics_enabled": False,
    }


if TYPE_CHECKING:
    from holter.pipeline.loader.consumer import Consumer

    _conforms: type[Consumer] = KafkaGroupConsumer
