"""Tests cannot reach a service unless a marker says so, even where the code under test swallows the error.

Properties are tried on few examples, the same ones in each run of the same code, so that what fails is what changed;
``--hypothesis-profile=thorough`` tries many, fresh ones each time.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
import urllib3.util.connection  # noqa: F401  (it looks for IPv6 by binding, once: no test must be the first)
from hypothesis import HealthCheck, settings
from typer.main import get_command

from holter.infra.jars import Jars, find_jars
from tests.jobs.local_broker import running_broker

OPEN = ("network", "services", "flink")
OUTSIDE = "network|services|flink|frameworks"
"""What the Makefile's targets leave out of the unit tests."""
OF_TORCH = re.compile("/(?:producers/torch|infra/stabilisers)/")
"""Whose doctests need torch."""

collect_ignore = ["producers/integrations/hello"]
"""Programs of their own, which train when they are imported."""

UNTIMED: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=15, derandomize=True, **UNTIMED)
settings.register_profile("thorough", max_examples=1000, **UNTIMED)
settings.load_profile("quick")


typer.testing._get_command = functools.cache(get_command)  # type: ignore[attr-defined]
"""A command is built from its annotations once, not at every invocation."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module without a test to run is not imported either: torch, Keras or Transformers alone take seconds."""
    if collection_path.suffix != ".py":
        return None
    text, expression = collection_path.read_text(), str(config.option.markexpr)
    if not collection_path.name.startswith("test_"):
        return None if ">>> " in text else True
    if expression.startswith("not ("):
        return _marks_all(f"{OUTSIDE}|torch", text)
    if expression.startswith("torch and not ("):
        return _marks_all(OUTSIDE, text) if _marks("torch", text) else True
    if expression.startswith("services or "):
        return None if _marks(OUTSIDE, text) else True
    return None


def _marks(names: str, text: str) -> bool:
    return re.search(rf"\bmark\.(?:{names})\b", text) is not None


def _marks_all(names: str, text: str) -> bool | None:
    """True where a module says so of all its tests."""
    return any(_marks(names, line) for line in re.findall(r"^pytestmark = (?:\[\s*)?.*", text, re.MULTILINE)) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who needs the whole stack comes last, and at the very end who takes it down: meanwhile it costs nothing.

    A doctest cannot say that its module needs torch: its folder does.
    """

    def turn(item: pytest.Item) -> int:
        return ("stack" in getattr(item, "fixturenames", ())) + (item.path.name == "test_stack.py")

    items.sort(key=turn)
    for item in items:
        if isinstance(item, pytest.DoctestItem) and OF_TORCH.search(item.path.as_posix()):
            item.add_marker("torch")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Importing makes no garbage worth a walk through all that is there."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What collecting imported stays until the end: the collector need not walk all of torch again and again.

    Torch's loggers hand on to the root as others do: pytest would add its handlers to each of fifty at every test.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 20, 100)
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.fixture(autouse=True)
def no_sockets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuses connections and listening sockets, and fails the test at its end if one was tried."""
    if any(request.node.get_closest_marker(name) for name in OPEN):
        yield
        return
    tried: list[Any] = []

    def refuse(_: socket.socket, address: Any, *rest: Any) -> None:
        if isinstance(address, tuple):
            tried.append(address)
            raise OSError(f"unit tests open no sockets: {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    yield
    assert not tried, f"sockets were opened without the marker `network`: {tried}"


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Jars:
    found = find_jars()
    found.build(os.environ, tmp_path_factory.mktemp("maven") / "maven.log")
    return found


@pytest.fixture(scope="session")
def bootstrap(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own: whoever uses it takes names or a prefix that nobody else has."""
    with running_broker(jars.kafka, tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The whole local stack in a folder of its own: its state (addresses, DSN, key file), up until the last test."""
    from rich.console import Console

    from holter.infra.settings import settings_from_env
    from holter.infra.stack import Stack

    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HOLTER_", "KAFKA_"))}
    running = Stack(settings_from_env({}, tmp_path_factory.mktemp("stack")), environ, Console(stderr=True))
    try:
        running.up()
        yield running
    finally:
        running.down()
