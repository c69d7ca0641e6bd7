"""Where tables go: a ClickHouse by DSN, the connection made when it is first needed and anew after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from holter.pipeline.store.client import connect, store_errors
from holter.pipeline.store.dsn import Dsn
from holter.pipeline.store.errors import StoreError


class Sink(Protocol):
    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Inserts all rows. Called again with the same token and rows after a failure, it adds them once.

        Raises:
            StoreError: ``retriable`` says whether to try again.
        """

    def close(self) -> None: ...


class StoreSink:
    def __init__(self, dsn: Dsn) -> None:
        self._dsn = dsn
        self._client: Any = None

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        try:
            if self._client is None:
                self._client = connect(self._dsn)
            with store_errors(self._dsn):
                self._client.insert_arrow(table, rows, settings={"insert_deduplication_token": token})
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


if TYPE_CHECKING:
    _conforms: type[Sink] = StoreSink
