"""What is written for Kafka and Flink: loopback only, and the settings that cost a day to find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holter.infra import flink_config
from holter.infra.components.kafka import server_settings
from holter.infra.context import StackContext
from holter.infra.flink_distribution import link_jars
from holter.infra.jars import Jars
from holter.infra.settings import StackSettings

PORTS = {
    name: 20_000 + number
    for number, name in enumerate(
        ("flink_rest", "jobmanager", "flink_blob", "jobmanager_metrics", "taskmanager", "taskmanager_data",
         "taskmanager_metrics")
    )
}  # fmt: skip


@pytest.fixture
def context(tmp_path: Path) -> StackContext:
    context = StackContext(StackSettings(home=tmp_path), Jars(tmp_path), {"PATH": "/bin"})
    context.state_file.set(ports=PORTS)
    return context


def test_every_address_of_the_broker_is_loopback() -> None:
    settings = server_settings(1, 2, Path("/data"))
    addresses = [value for key, value in settings.items() if "listeners" in key or "voters" in key]
    hosts = re.findall(r"(?://|@)([^:]+):", " ".join(addresses))
    assert set(hosts) == {"127.0.0.1"}
    assert len(hosts) == 4


def test_one_broker_is_enough_for_the_topics_it_makes_itself() -> None:
    settings = server_settings(1, 2, Path("/data"))
    ones = [value for key, value in settings.items() if key.endswith((".replication.factor", ".min.isr"))]
    assert ones == ["1"] * 5
    assert settings["auto.create.topics.enable"] == "false"


@pytest.mark.parametrize("config_of", [flink_config.jobmanager_config, flink_config.taskmanager_config])
def test_every_address_of_the_cluster_is_loopback_and_every_port_given(config_of, context: StackContext) -> None:  # type: ignore[no-untyped-def]
    config = config_of(context)
    hosts = {key: value for key, value in config.items() if re.search(r"(address|host)$", key)}
    assert set(hosts.values()) == {"127.0.0.1"}
    ports = [value for key, value in config.items() if key.endswith("port")]
    assert set(map(int, ports)) <= set(PORTS.values())


def test_jobs_keep_their_state_and_answer_at_once(context: StackContext) -> None:
    config = flink_config.jobmanager_config(context)
    assert config["execution.buffer-timeout.interval"] == "0 ms"
    assert config["python.execution-mode"] == "thread"
    assert config["classloader.parent-first-patterns.additional"] == "pemja."
    assert config["execution.checkpointing.externalized-checkpoint-retention"] == "RETAIN_ON_CANCELLATION"
    assert config["execution.checkpointing.interval"] == "3000 ms"


def test_values_are_quoted_for_yaml() -> None:
    assert flink_config.render_config({"a.b": 'x: "y" #z'}) == 'a.b: "x: \\"y\\" #z"\n'


def test_workers_find_python(context: StackContext) -> None:
    environment = context.python_environment()
    scripts = str(Path(context.settings.python).parent)
    assert environment["PATH"].split(":")[0] == scripts
    assert environment["VIRTUAL_ENV"] == str(Path(scripts).parent)
    assert "site-packages" in environment["PYTHONPATH"]


def test_links_follow_the_jars(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / "a.jar", tmp_path / "new" / "a.jar"
    for jar in (old, new):
        jar.parent.mkdir()
        jar.write_text(jar.parent.name)
    folder = tmp_path / "lib"
    link_jars(folder, [old, tmp_path / "old" / "gone.jar"])
    link_jars(folder, [new])
    assert [link.name for link in folder.iterdir()] == ["a.jar"]
    assert (folder / "a.jar").read_text() == "new"
