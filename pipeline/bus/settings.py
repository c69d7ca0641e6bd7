"""How to reach a Kafka: the usual environment variables, and where the local stack says it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SASL_AND_SSL = {
    "KAFKA_SECURITY_PROTOCOL": "security_protocol",
    "KAFKA_SASL_MECHANISM": "sasl_mechanism",
    "KAFKA_SASL_USERNAME": "sasl_plain_username",
    "KAFKA_SASL_PASSWORD": "sasl_plain_password",
    "KAFKA_SSL_CAFILE": "ssl_cafile",
    "KAFKA_SSL_CERTFILE": "ssl_certfile",
    "KAFKA_SSL_KEYFILE": "ssl_keyfile",
    "KAFKA_SSL_PASSWORD": "ssl_password",
}


@dataclass(frozen=True)
class KafkaSettings:
    """``client`` are kafka-python's connection settings; they may hold secrets and are not shown."""

    bootstrap: str
    prefix: str = ""
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def client_config(self, client_id: str) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap.split(","), "client_id": client_id, **self.client}


def kafka_settings_from_env(
    environ: Mapping[str, str], bootstrap: str | None = None, prefix: str | None = None
) -> KafkaSettings | None:
    """Settings of ``KAFKA_*`` and ``HOLTER_TOPIC_PREFIX``; None where no bootstrap server is named."""
    servers = bootstrap or environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if not servers:
        return None
    client = {name: environ[variable] for variable, name in _SASL_AND_SSL.items() if environ.get(variable)}
    return KafkaSettings(servers, environ.get("HOLTER_TOPIC_PREFIX", "") if prefix is None else prefix, client)
