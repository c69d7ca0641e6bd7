"""The topics: what lies in each, who may read it back how, and how the broker keeps it.

Timestamps are the broker's (LogAppendTime): with trainer time a clock two hours ahead is refused, and records that
waited in a spool are deleted at once. Event time is in the value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from holter.schemas import codec
from holter.schemas.codec import Decoder
from holter.schemas.errors import InvalidRecord
from holter.schemas.signed import Role

PREFIX_VARIABLE = "HOLTER_TOPIC_PREFIX"
MAX_MESSAGE_BYTES = 1024 * 1024
_DAY_MS = 86_400_000
_PREFIX = re.compile(r"\A[a-zA-Z0-9_]{1,64}\Z")


@dataclass(frozen=True)
class Topic:
    """One topic. ``role`` is that of the key its records are signed with, None where they are not signed."""

    name: str
    description: str
    decoder: Decoder[Any]
    role: Role | None = None
    num_partitions: int = 4
    retention_days: int = 7
    compacted: bool = False

    @property
    def config(self) -> dict[str, str]:
        """The broker's settings of the topic."""
        settings = {
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(MAX_MESSAGE_BYTES),
            "cleanup.policy": "compact" if self.compacted else "delete",
            "compression.type": "producer",
        }
        if not self.compacted:
            settings["retention.ms"] = str(self.retention_days * _DAY_MS)
        return settings

    def full_name(self, prefix: str = "") -> str:
        """The name in a tenant's prefix.

        Raises:
            ValueError: the prefix has other characters than letters, digits and ``_``.
        """
        if prefix and not _PREFIX.match(prefix):
            raise ValueError(f"topic prefix {prefix!r} must be at most 64 letters, digits and '_'")
        return f"{prefix}-{self.name}" if prefix else self.name


TELEMETRY = Topic("holter-telemetry", "Metrics, events and acknowledgements of trainers.", codec.telemetry)
RANKS = Topic("holter-ranks", "Metrics of the other ranks, keyed project/run/rank.", codec.telemetry, retention_days=3)
WINDOWS = Topic("holter-windows", "Statistics of 100 steps a metric.", codec.windows)
SIGNALS = Topic("holter-signals", "What the detectors say.", codec.signals, retention_days=30)
DECISIONS = Topic("holter-decisions", "What was chosen and whether it helped.", codec.decisions, retention_days=30)
COMMANDS = Topic("holter-commands", "What people ask for, signed.", codec.commands, role="person", retention_days=30)
CONTROL = Topic("holter-control", "Actions and healthy checkpoints, signed by watch.", codec.control, role="issuer")
HOLDS = Topic("holter-holds", "Runs that nothing may act on, signed.", codec.holds, role="person", compacted=True)
DLQ = Topic("holter-dlq", "What could not be read.", codec.dead_letters)

TOPICS: tuple[Topic, ...] = (TELEMETRY, RANKS, WINDOWS, SIGNALS, DECISIONS, COMMANDS, CONTROL, HOLDS, DLQ)
BY_NAME = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True)
class TopicNames:
    """The full names under one prefix, and the way back."""

    prefix: str = ""
    by_full_name: dict[str, Topic] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_full_name", {topic.full_name(self.prefix): topic for topic in TOPICS})

    def of(self, topic: Topic) -> str:
        return topic.full_name(self.prefix)


def check_key(key: str, record: Any) -> None:
    """A record's key must be ``project/run`` of its body, or it would be judged as another run.

    Raises:
        InvalidRecord: they differ, or a name has a ``/``.
    """
    project, _, run = key.partition("/")
    if record.project != project or record.run != run or "/" in run:
        raise InvalidRecord("wrong_key", f"key {key[:200]!r}, body is of {f'{record.project}/{record.run}'!r}")
