"""Tests cannot reach a service unless a marker says so, even where the code under test swallows the error."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

OPEN = ("network", "services", "flink")


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
