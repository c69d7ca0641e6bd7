"""The topics as a broker must keep them."""

from __future__ import annotations

import re

import pytest

from holter.schemas import InvalidRecord, run_key
from holter.schemas.commands import Release
from holter.schemas.topics import DLQ, MAX_MESSAGE_BYTES, TOPICS, TopicNames, check_key


def test_names_use_one_separator_and_no_dots() -> None:
    assert all(re.fullmatch(r"holter(-[a-z]+)+", topic.name) for topic in TOPICS)
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)


def test_the_broker_stamps_time_and_takes_what_producers_compress() -> None:
    for topic in TOPICS:
        assert topic.config["message.timestamp.type"] == "LogAppendTime"
        assert topic.config["max.message.bytes"] == str(MAX_MESSAGE_BYTES)


def test_only_compacted_topics_are_kept_for_ever() -> None:
    assert [topic.name for topic in TOPICS if topic.compacted] == ["holter-holds"]
    assert all(("retention.ms" in topic.config) != topic.compacted for topic in TOPICS)
    assert DLQ.retention_days == 7


def test_prefixes_keep_tenants_apart() -> None:
    names = TopicNames("acme")
    assert names.of(DLQ) == "acme-holter-dlq"
    assert names.by_full_name["acme-holter-dlq"] is DLQ
    with pytest.raises(ValueError, match="letters, digits"):
        TopicNames("a-b")


def test_a_key_fits_two_hundred_bytes_of_utf8() -> None:
    assert run_key("p" * 100, "r" * 99) == "p" * 100 + "/" + "r" * 99
    with pytest.raises(InvalidRecord, match="limit is 200"):
        run_key("é" * 60, "r" * 90)


@pytest.mark.parametrize(
    ("key", "project", "run"),
    [("a/b", "a", "c"), ("a/b/c", "a/b", "c"), ("a/b/c", "a", "b/c"), ("ab", "a", "b"), ("", "a", "b")],
)
def test_a_key_is_that_of_the_body_and_names_have_no_slash(key: str, project: str, run: str) -> None:
    with pytest.raises(InvalidRecord, match="wrong_key"):
        check_key(key, Release(project, run, "ada", 0))


def test_a_key_that_fits_passes() -> None:
    check_key("a/b", Release("a", "b", "ada", 0))
