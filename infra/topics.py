"""Topics on a broker: what is missing, what differs; missing ones are created, existing ones never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kafka.admin import ConfigResource, ConfigResourceType

from holter.infra.kafka_admin import kafka_admin
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.topics import TOPICS, Topic


@dataclass(frozen=True)
class ExistingTopic:
    """A topic as the broker has it."""

    num_partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class TopicPlan:
    """What is to be done about one topic."""

    name: str
    action: Literal["create", "keep", "differs"]
    num_partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    differences: tuple[str, ...] = ()


def plan_topic(topic: Topic, prefix: str, existing: ExistingTopic | None) -> TopicPlan:
    """More partitions than wanted are no difference: they can be added to a topic, never taken away."""
    name = topic.full_name(prefix)
    if existing is None:
        return TopicPlan(name, "create", topic.num_partitions, topic.config)
    differences = tuple(
        f"{key} is {existing.config.get(key, 'unset')}, wanted {value}"
        for key, value in topic.config.items()
        if existing.config.get(key) != value
    )
    if existing.num_partitions < topic.num_partitions:
        differences = (f"{existing.num_partitions} partitions, wanted {topic.num_partitions}", *differences)
    return TopicPlan(name, "differs" if differences else "keep", topic.num_partitions, topic.config, differences)


def plan_topics(settings: KafkaSettings) -> list[TopicPlan]:
    """Compares every topic of the prefix with the broker's.

    Raises:
        StackError: the broker does not answer or refuses.
    """
    with kafka_admin(settings) as admin:
        existing = _existing_topics(admin, [topic.full_name(settings.prefix) for topic in TOPICS])
    return [plan_topic(topic, settings.prefix, existing.get(topic.full_name(settings.prefix))) for topic in TOPICS]


def create_topics(settings: KafkaSettings, plans: Sequence[TopicPlan]) -> int:
    """Creates the topics whose plan says so and returns their number, once each has a leader.

    Raises:
        StackError: the broker does not answer or refuses.
    """
    new = {
        plan.name: {"num_partitions": plan.num_partitions, "configs": dict(plan.config)}
        for plan in plans
        if plan.action == "create"
    }
    if new:
        with kafka_admin(settings) as admin:
            admin.create_topics(new, wait_for_metadata=True)
    return len(new)


def _existing_topics(admin: Any, names: Sequence[str]) -> dict[str, ExistingTopic]:
    present = sorted(set(names) & set(admin.list_topics()))
    if not present:
        return {}
    partitions = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics(present)}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in present]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    return {name: ExistingTopic(partitions[name], _values(configs[name])) for name in present}


def _values(config: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {key: str(entry["value"]) for key, entry in config.items()}
