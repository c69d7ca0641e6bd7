from __future__ import annotations

from typing import cast

import pytest

from holter.pipeline.store.engine import Connection
from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.sessions import Sessions


class FakeConnection:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Opened:
    def __init__(self) -> None:
        self.now = 0.0
        self.connections: list[FakeConnection] = []
        self.sessions = Sessions(self._connect, lambda: self.now)

    def _connect(self) -> Connection:
        self.connections.append(FakeConnection())
        return cast(Connection, self.connections[-1])


def test_a_session_keeps_its_connection() -> None:
    opened = Opened()
    with opened.sessions.use("a", 60, must_exist=False) as first:
        pass
    with opened.sessions.use("a", 60, must_exist=True) as second:
        assert second is first
    assert len(opened.connections) == 1


def test_a_second_request_in_a_busy_session_is_refused() -> None:
    sessions = Opened().sessions
    with (
        sessions.use("a", 60, must_exist=False),
        pytest.raises(QueryRefused) as refused,
        sessions.use("a", 60, must_exist=False),
    ):
        pass
    assert refused.value.code == 373


def test_an_idle_session_ends_after_its_timeout() -> None:
    opened = Opened()
    with opened.sessions.use("a", 60, must_exist=False):
        opened.now = 1000.0
    opened.now = 1061.0
    with pytest.raises(QueryRefused) as refused, opened.sessions.use("a", 60, must_exist=True):
        pass
    assert refused.value.code == 372
    assert opened.connections[0].is_closed
