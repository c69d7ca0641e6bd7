"""Tests cannot reach a service unless a marker says so, even where the code under test swallows the error.

Properties are tried on few examples, fresh ones in each run; ``--hypothesis-profile=thorough`` tries many.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import settings
from typer.main import get_command

OPEN = ("network", "services", "flink")

collect_ignore = ["producers/integrations/hello"]
"""Programs of their own, which train when they are imported."""

settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("quick")


typer.testing._get_command = functools.cache(get_command)  # type: ignore[attr-defined]
"""A command is built from its annotations once, not at every invocation."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module whose tests are all deselected is not imported either: Keras or Transformers alone take seconds."""
    expression = config.option.markexpr
    if not (expression.startswith("not") and "frameworks" in expression and collection_path.name.startswith("test_")):
        return None
    whole_module = re.search(r"^pytestmark = .*\bmark\.frameworks\b", collection_path.read_text(), re.MULTILINE)
    return True if whole_module else None


def pytest_collection_finish() -> None:
    """What collecting imported stays until the end: the collector need not walk all of torch again and again."""
    gc.collect()
    gc.freeze()


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
