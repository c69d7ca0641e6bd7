"""Where a run finds its bus, its keys and its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holter import producers
from holter.infra.keys import ensure_key_file
from holter.producers.connection import connection_from_env
from holter.producers.names import checked_key, generated_run_name


@pytest.mark.parametrize("name", ["", "a/b", "x" * 101, "a\nb", "\ud800", "é" * 60])
def test_names_that_cannot_be_a_key_are_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be used|must be text"):
        producers.init(name, "é" * 45, mode="disabled")


def test_the_key_may_be_200_bytes() -> None:
    assert len(checked_key("p" * 100, "r" * 99)) == 200
    with pytest.raises(ValueError, match="200"):
        checked_key("p" * 100, "r" * 100)


def test_a_name_is_made_where_none_is_given() -> None:
    assert generated_run_name() != generated_run_name()
    assert producers.init("p", mode="disabled").name


def test_with_nothing_configured_the_run_is_disabled_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = producers.init("p", "r", environ={"HOLTER_HOME": str(tmp_path)})
    assert not run.enabled
    assert len(caplog.messages) == 1
    assert "KAFKA_BOOTSTRAP_SERVERS" in caplog.messages[0]


def test_the_mode_comes_from_argument_or_environment() -> None:
    assert not producers.init("p", "r", environ={"HOLTER_MODE": "disabled", "KAFKA_BOOTSTRAP_SERVERS": "x:1"}).enabled
    with pytest.raises(ValueError, match="mode 'loud'"):
        producers.init("p", "r", environ={"HOLTER_MODE": "loud"})


def test_the_local_stack_is_found_by_its_state_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    ensure_key_file(keys)
    state = {"version": 1, "kafka.bootstrap": "127.0.0.1:9", "prefix": "team", "keys_file": str(keys)}
    (tmp_path / "state.json").write_text(json.dumps(state))
    connection = connection_from_env({"HOLTER_HOME": str(tmp_path)})
    assert connection is not None
    assert (connection.kafka.bootstrap, connection.kafka.prefix) == ("127.0.0.1:9", "team")
    assert connection.keyring is not None


def test_the_environment_wins_over_the_local_stack(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"kafka.bootstrap": "127.0.0.1:9", "prefix": "team"}))
    connection = connection_from_env({"HOLTER_HOME": str(tmp_path), "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"})
    assert connection is not None
    assert (connection.kafka.bootstrap, connection.kafka.prefix) == ("kafka:9092", "")
    assert connection.keyring is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kafka.bootstrap": null}'])
def test_a_state_file_that_says_nothing_is_no_stack(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    assert connection_from_env({"HOLTER_HOME": str(tmp_path)}) is None


def test_a_key_file_that_others_can_read_leaves_a_publishing_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.json"
    ensure_key_file(keys)
    keys.chmod(0o644)
    environ = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "HOLTER_KEYS_FILE": str(keys)}
    run = producers.init("p", "r", environ=environ)
    assert run.enabled
    assert "chmod 600" in caplog.text
