"""ClickHouse's HTTP interface over the embedded engine, on the standard library's threading server.

A thread a connection, an engine connection a request; a request in a session uses the session's. Every request
needs the password. GET cannot change anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from holter.pipeline.store.credentials import Credentials
from holter.pipeline.store.engine import STREAMED_FORMATS, Connection, Engine
from holter.pipeline.store.errors import QueryRefused, StoreError, StoreOverloaded, StoreUnavailable
from holter.pipeline.store.http_answer import AnswerWriter
from holter.pipeline.store.http_request import Request, read_body, read_request
from holter.pipeline.store.request_settings import request_settings
from holter.pipeline.store.sessions import MAX_TIMEOUT_SECONDS, Sessions
from holter.pipeline.store.statement import Statement, parse

AUTHENTICATION_FAILED = 516
REQUIRED_PASSWORD = 194
TOO_MANY_QUERIES = 202
NETWORK_ERROR = 210
DEFAULT_SESSION_SECONDS = 60.0
MAX_QUERIES = 64
_logger = logging.getLogger(__name__)


class StoreServer(ThreadingHTTPServer):
    """Listens once it is built; ``serve_forever`` answers until ``drain``."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], engine: Engine, credentials: Credentials) -> None:
        self.engine = engine
        self.credentials = credentials
        self.sessions = Sessions(engine.connect_limited)
        self._num_running = 0
        self._is_draining = False
        self._changed = threading.Condition()
        super().__init__(address, StoreHandler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts a query, so that ``drain`` can wait for it.

        Raises:
            StoreUnavailable: the server is stopping.
            StoreOverloaded: too many queries run.
        """
        with self._changed:
            if self._is_draining:
                raise StoreUnavailable("the store is stopping", NETWORK_ERROR)
            if self._num_running >= MAX_QUERIES:
                raise StoreOverloaded(f"more than {MAX_QUERIES} queries at once", TOO_MANY_QUERIES)
            self._num_running += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_running -= 1
                self._changed.notify_all()

    def drain(self, timeout_seconds: float) -> bool:
        """Refuses new queries, waits for the running ones; whether all of them ended in time."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            self._is_draining = True
            self._changed.wait_for(lambda: self._num_running == 0, max(deadline - time.monotonic(), 0.0))
            is_idle = self._num_running == 0
        self.shutdown()
        self.server_close()
        if is_idle:
            self.sessions.close()
        return is_idle


class StoreHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "holter-store"
    sys_version = ""
    timeout = 120  # seconds that a connection may idle
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def handle_expect_100(self) -> bool:
        is_expected = super().handle_expect_100()
        self.wfile.flush()
        return is_expected

    def log_message(self, format: str, *args: object) -> None:
        """Statements and URLs may hold secrets: nothing of a request is logged."""

    def _answer(self) -> None:
        writer = AnswerWriter(self)
        try:
            body = self._read_body()
            request = read_request(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
            writer = AnswerWriter(self, request.query_id, self._store.engine.timezone)
            if not self._answer_probe(request, writer):
                self._authenticate(request)
                with self._store.running():
                    self._run(request, writer)
                    self.wfile.flush()
        except StoreError as error:
            writer.error(error)
        except OSError:
            self.close_connection = True  # the client is gone
        except Exception:
            _logger.exception("a request failed")
            self.close_connection = True

    def _read_body(self) -> bytes:
        try:
            return read_body(self.rfile, self.headers)  # type: ignore[arg-type]
        except StoreError:
            # What is left of a body that was not read would be taken for the next request.
            self.close_connection = True
            raise

    def _answer_probe(self, request: Request, writer: AnswerWriter) -> bool:
        """Health checks need no password and tell nothing."""
        if request.path in ("/ping", "/replicas_status") or (request.path == "/" and not request.sql.strip()):
            writer.plain("Ok.\n")
            return True
        return False

    def _authenticate(self, request: Request) -> None:
        user, password = request.login
        if not user and not password:
            raise QueryRefused("a user and a password are required", REQUIRED_PASSWORD)
        if not self._store.credentials.match(user, password):
            raise QueryRefused(f"{user[:100]}: Authentication failed: password is incorrect, or there is no user "
                               "with such name", AUTHENTICATION_FAILED)  # fmt: skip

    def _run(self, request: Request, writer: AnswerWriter) -> None:
        statement = parse(request.sql)
        guard = self._store.engine.guard
        guard.check(statement)
        guard.check_settings(request.settings)
        with self._connection(request) as connection, request_settings(connection, request, statement):
            _execute(connection, statement, request, writer)

    @contextmanager
    def _connection(self, request: Request) -> Iterator[Connection]:
        session_id = request.params.get("session_id")
        if not session_id:
            connection = self._store.engine.connect_limited()
            try:
                yield connection
            finally:
                connection.close()
            return
        must_exist = request.params.get("session_check", "0") == "1"
        with self._store.sessions.use(session_id, _session_seconds(request), must_exist) as connection:
            yield connection

    @property
    def _store(self) -> StoreServer:
        return cast(StoreServer, self.server)


def _execute(connection: Connection, statement: Statement, request: Request, writer: AnswerWriter) -> None:
    if statement.data is not None:
        writer.whole(connection.insert(statement.text, statement.data, statement.data_format), None, "")
        return
    output_format = statement.output_format or request.default_format
    if statement.can_stream and output_format in STREAMED_FORMATS and request.may_stream:
        pieces = connection.stream(statement.text, output_format)
        try:
            writer.stream(pieces, output_format, request.accepts)
        finally:
            pieces.close()  # type: ignore[attr-defined]
        return
    answer = connection.query(statement.text, output_format)
    writer.whole(answer, output_format if statement.has_result else None, request.accepts)


def _session_seconds(request: Request) -> float:
    text = request.params.get("session_timeout", "")
    return min(float(text), MAX_TIMEOUT_SECONDS) if text.isdecimal() else DEFAULT_SESSION_SECONDS
