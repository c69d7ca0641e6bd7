"""A clickhouse-connect client for a DSN. Safe to share between threads: it has no session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from holter.pipeline.store.dsn import Dsn
from holter.pipeline.store.errors import StoreError, StoreUnavailable, code_of, store_error
from holter.pipeline.store.migrate import Run

CONNECT_TIMEOUT_SECONDS = 5
ANSWER_TIMEOUT_SECONDS = 120


def connect(dsn: Dsn, database: str | None = None) -> Any:
    """A client of the DSN's database, or of ``database``.

    Raises:
        StoreError: nobody answers, the password is wrong, or the database is missing.
    """
    with store_errors(dsn):
        return clickhouse_connect.get_client(
            host=dsn.host,
            port=dsn.port,
            username=dsn.user,
            password=dsn.password,
            database=database or dsn.database,
            secure=dsn.secure,
            compress=not dsn.is_loopback,
            autogenerate_session_id=False,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            send_receive_timeout=ANSWER_TIMEOUT_SECONDS,
        )


def runner(dsn: Dsn) -> Run:
    """Runs single statements, for migrations; works before the DSN's database exists.

    Raises:
        StoreError: see ``connect``.
    """
    client = connect(dsn, database="default")

    def run(sql: str) -> bytes:
        with store_errors(dsn):
            return bytes(client.raw_query(sql))

    return run


@contextmanager
def store_errors(dsn: Dsn) -> Iterator[None]:
    """Turns the client's errors into the store's; what was never answered can be tried again."""
    try:
        yield
    except ClickHouseError as error:
        raise _store_error(error, dsn) from None
    except OSError as error:
        raise StoreUnavailable(f"{dsn} does not answer: {error}") from None


def _store_error(error: ClickHouseError, dsn: Dsn) -> StoreError:
    code = getattr(error, "code", None) or code_of(str(error))
    if code == 0 and isinstance(error, OperationalError):
        return StoreUnavailable(f"{dsn} does not answer: {_first_line(error)}")
    return store_error(_first_line(error), code)


def _first_line(error: Exception) -> str:
    text = str(error)
    start = max(text.find("Code: "), 0)
    return text[start:].strip().splitlines()[0][:500] if text.strip() else type(error).__name__
