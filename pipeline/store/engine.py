"""The ClickHouse engine in this process: one owner of a data folder, a connection of its own for every request.

Connections run in parallel; one shared handle does not, so nothing here is pooled. The engine's `default` database
shows the file system of the machine as tables, so it is replaced by an empty one when the engine opens.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chdb
from chdb._exceptions import ChdbError

from holter.pipeline.store.errors import StoreError, StoreUnavailable, code_of, store_error
from holter.pipeline.store.guard import Guard, ai_functions

_PIECE_BYTES = 1024 * 1024
_MARK_CACHE_BYTES = 256 * 1024 * 1024
# Without a global head or foot, so that pieces can follow each other.
STREAMED_FORMATS = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow"})


@dataclass(frozen=True)
class Limits:
    """What one request may use; a request may ask for less."""

    max_execution_time: int = 60
    """Seconds."""
    max_result_rows: int = 10_000_000
    max_memory_usage: int = 2 * 1024**3
    """Bytes."""

    def as_settings(self) -> dict[str, int]:
        return {
            "max_execution_time": self.max_execution_time,
            "max_result_rows": self.max_result_rows,
            "max_memory_usage": self.max_memory_usage,
        }


@dataclass(frozen=True)
class Answer:
    """A whole result with what it took."""

    body: bytes = b""
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    elapsed_seconds: float = 0.0


class Connection:
    """The state of one request or session. One thread at a time; every method raises ``StoreError``."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def query(self, sql: bytes | str, output_format: str = "TabSeparated") -> Answer:
        with _engine_errors():
            result = self._raw.query(_text(sql), output_format)
            return Answer(
                result.bytes() or b"", result.storage_rows_read(), result.storage_bytes_read(), result.rows_written(),
                result.bytes_written(), result.rows_read(), result.elapsed(),
            )  # fmt: skip

    def stream(self, sql: bytes | str, output_format: str) -> Iterator[bytes]:
        """The result piece by piece; closing the iterator cancels the query."""
        with _engine_errors():
            result = self._raw.send_query(_text(sql), output_format)
        try:
            while True:
                with _engine_errors():
                    piece = result.fetch()
                if piece is None:
                    return
                yield piece.bytes()
        finally:
            result.cancel()

    def insert(self, statement: bytes | str, data: bytes, input_format: str) -> Answer:
        """All rows of ``data`` or none, up to the engine's block of about a million rows."""
        with _engine_errors():
            inserter = self._raw.send_insert(_text(statement), input_format)
            try:
                for start in range(0, len(data), _PIECE_BYTES):
                    inserter.append(data[start : start + _PIECE_BYTES])
                done = inserter.finish()
            finally:
                inserter.cancel()
        return Answer(
            written_rows=done.rows_written, written_bytes=done.bytes_written, elapsed_seconds=done.elapsed
        )  # fmt: skip

    def use(self, database: str) -> None:
        self.query(f"USE {quote_name(database)}")

    def set(self, settings: Mapping[str, str | int]) -> None:
        if settings:
            pairs = ", ".join(f"{name} = {quote_text(str(value))}" for name, value in settings.items())
            self.query(f"SET {pairs}")

    def close(self) -> None:
        self._raw.close()


class Engine:
    """Owns a data folder until ``close``.

    Raises:
        StoreUnavailable: another process owns the folder.
        StoreError: the folder cannot be opened.
    """

    def __init__(self, folder: Path, limits: Limits = Limits()) -> None:
        self.limits = limits
        self._lock_file = _lock(folder)
        self._path = f"{folder}?mark_cache_size={_MARK_CACHE_BYTES}"
        self._owner = self.connect()
        _replace_default_database(self._owner)
        self.timezone = self._column("SELECT timezone()")[0]
        self.guard = Guard(
            table_functions=frozenset(name.lower() for name in self._column("SELECT name FROM system.table_functions")),
            ceilings=limits.as_settings(),
            functions=ai_functions(self._column("SELECT name FROM system.functions")),
        )

    def connect(self) -> Connection:
        with _engine_errors():
            return Connection(chdb.connect(self._path))

    def connect_limited(self) -> Connection:
        """A connection for a stranger's statements."""
        connection = self.connect()
        connection.set(self.limits.as_settings())
        return connection

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        connection = self.connect()
        try:
            yield connection
        finally:
            connection.close()

    def close(self) -> None:
        self._owner.close()
        os.close(self._lock_file)

    def _column(self, sql: str) -> Sequence[str]:
        return self._owner.query(sql, "TSVRaw").body.decode().splitlines()


def quote_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_name(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _text(sql: bytes | str) -> str:
    return sql if isinstance(sql, str) else sql.decode("utf-8", "replace")


@contextmanager
def _engine_errors() -> Iterator[None]:
    try:
        yield
    except (ChdbError, RuntimeError) as error:
        text = str(error)
        start = max(text.find("Code: "), 0)
        raise store_error(text[start:].strip(), code_of(text)) from None


def _replace_default_database(owner: Connection) -> None:
    owner.query("DROP DATABASE IF EXISTS default")
    owner.query("CREATE DATABASE default ENGINE = Memory")


def _lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"the data folder {folder} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreUnavailable(f"another process owns {folder}: stop it, or give --data another folder") from None
    return descriptor
