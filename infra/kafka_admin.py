"""A short-lived administration client of Kafka, and how far a group of readers is behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError

from holter.infra.errors import StackError
from holter.pipeline.bus.settings import KafkaSettings

_CONNECT_TIMEOUT_MS = 10_000
_CLIENT_ID = "holter-admin"


@contextmanager
def kafka_admin(settings: KafkaSettings) -> Iterator[Any]:
    """A client for the time of the block.

    Raises:
        StackError: the broker does not answer or refuses, now or in the block.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what goes wrong is said once, below
    client = None
    try:
        config = settings.client_config(_CLIENT_ID)
        client = KafkaAdminClient(**config, bootstrap_timeout_ms=_CONNECT_TIMEOUT_MS)
        yield client
    except KafkaError as error:
        raise StackError(f"Kafka at {settings.bootstrap}: {error}") from None
    finally:
        if client is not None:
            client.close()


def num_records_behind(settings: KafkaSettings, group: str) -> int:
    """How many records lie in the partitions that the group has read from and not yet noted as read.

    Raises:
        StackError: see :func:`kafka_admin`.
    """
    with kafka_admin(settings) as admin:
        noted = admin.list_group_offsets([group])[group]
        ends = admin.list_partition_offsets(dict.fromkeys(noted, OffsetSpec.LATEST)) if noted else {}
    return sum(max(0, ends[partition].offset - noted[partition].offset) for partition in noted)
