from __future__ import annotations

from dataclasses import replace

from holter.infra.topics import ExistingTopic, plan_topic
from holter.schemas.topics import CONTROL, HOLDS


def test_a_missing_topic_is_to_be_created_under_its_prefix() -> None:
    plan = plan_topic(CONTROL, "team_a", None)
    assert (plan.name, plan.action, plan.num_partitions) == ("team_a-holter-control", "create", 4)
    assert plan.config["message.timestamp.type"] == "LogAppendTime"


def test_a_topic_as_wanted_is_kept_whatever_else_is_set_on_it() -> None:
    existing = ExistingTopic(HOLDS.num_partitions, {**HOLDS.config, "segment.bytes": "1"})
    assert plan_topic(HOLDS, "", existing).action == "keep"


def test_a_difference_names_the_setting_and_both_values() -> None:
    existing = ExistingTopic(CONTROL.num_partitions, {**CONTROL.config, "message.timestamp.type": "CreateTime"})
    plan = plan_topic(CONTROL, "", existing)
    assert plan.action == "differs"
    assert plan.differences == ("message.timestamp.type is CreateTime, wanted LogAppendTime",)


def test_fewer_partitions_differ_and_more_do_not() -> None:
    existing = ExistingTopic(1, CONTROL.config)
    assert plan_topic(CONTROL, "", existing).differences == ("1 partitions, wanted 4",)
    assert plan_topic(CONTROL, "", replace(existing, num_partitions=12)).action == "keep"
