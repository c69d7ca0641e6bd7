"""Settings of one request on a connection that may outlive it.

In ClickHouse the settings in a URL hold for one request, those of a SET statement for the session. The engine has
only the latter, so in a session what a request changed is put back; `readonly`, which cannot be, is checked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holter.pipeline.store.engine import Connection, quote_text
from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.http_request import Request
from holter.pipeline.store.statement import Statement

READONLY = 164
_READING_KINDS = frozenset(
    {"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK", "SET", "USE"}
)  # fmt: skip


@contextmanager
def request_settings(connection: Connection, request: Request, statement: Statement) -> Iterator[None]:
    """Raises:
    QueryRefused: a setting is not the engine's, or the request may only read and its statement does more.
    """
    if request.database:
        connection.use(request.database)
    settings: dict[str, str | int] = dict(request.settings)
    may_only_read = request.method == "GET" or settings.pop("readonly", "0") != "0"
    if may_only_read and statement.kind not in _READING_KINDS:
        raise QueryRefused(f"{statement.kind}: cannot execute query in readonly mode", READONLY)
    connection.set(request.query_parameters)
    if "session_id" not in request.params:
        connection.set({**settings, "readonly": 2} if may_only_read else settings)
        yield
        return
    before = _values(connection, settings)
    connection.set(settings)
    try:
        yield
    finally:
        _put_back(connection, before)


def _values(connection: Connection, settings: Mapping[str, object]) -> dict[str, str | None]:
    """The present values by name, None for those at their default."""
    if not settings:
        return {}
    names = ", ".join(quote_text(name) for name in settings)
    answer = connection.query(
        f"SELECT name, value, changed FROM system.settings WHERE name IN ({names})", "JSONCompactEachRow"
    )  # fmt: skip
    rows = [json.loads(line) for line in answer.body.splitlines()]
    return {name: value if changed else None for name, value, changed in rows}


def _put_back(connection: Connection, before: Mapping[str, str | None]) -> None:
    if before:
        pairs = (f"{name} = {'DEFAULT' if value is None else quote_text(value)}" for name, value in before.items())
        connection.query(f"SET {', '.join(pairs)}")
