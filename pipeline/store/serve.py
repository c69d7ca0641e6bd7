"""The process that owns the embedded store: opens the folder, migrates, then listens on loopback until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holter.pipeline.store.credentials import read_or_create
from holter.pipeline.store.engine import Engine, Limits
from holter.pipeline.store.errors import StoreError
from holter.pipeline.store.http_server import StoreServer
from holter.pipeline.store.migrate import Migrator, read_migrations

DRAIN_SECONDS = 20.0
LOOPBACK = "127.0.0.1"
_LOOK_SECONDS = 0.2
"""The kernel may hand a signal to a thread of the engine; then nothing wakes the main thread to handle it."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServeOptions:
    """How to serve. ``port`` 0 takes a free one; ``ready_file`` gets the port once requests are answered."""

    data: Path
    credentials: Path
    port: int = 0
    ready_file: Path | None = None
    database: str = "holter"
    limits: Limits = field(default_factory=Limits)


def serve(options: ServeOptions) -> int:
    """Serves until SIGTERM or SIGINT; the exit status.

    Raises:
        StoreError: the store cannot be opened, migrated or listened for.
    """
    signals: list[int] = []  # an Event's lock could be held by the very wait that the handler interrupts
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    credentials = read_or_create(options.credentials)
    engine = Engine(options.data, options.limits)
    _migrate(engine, options.database)
    try:
        server = StoreServer((LOOPBACK, options.port), engine, credentials)
    except OSError as error:
        raise StoreError(f"port {options.port} cannot be listened on: {error.strerror}") from None
    threading.Thread(target=server.serve_forever, name="store-http", daemon=True).start()
    _announce(server.port, options)
    while not signals:
        time.sleep(_LOOK_SECONDS)
    return _stop(server, engine)


def main(arguments: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return serve(_parse(arguments))
    except StoreError as error:
        print(f"holter store: {error}", file=sys.stderr)
        return 2


def _migrate(engine: Engine, database: str) -> None:
    with engine.connection() as connection:
        migrator = Migrator(lambda sql: connection.query(sql).body, database, read_migrations())
        for migration in migrator.apply():
            _logger.info("applied migration %04d %s", migration.number, migration.name)


def _announce(port: int, options: ServeOptions) -> None:
    _logger.info("serving %s on http://%s:%d", options.data, LOOPBACK, port)
    if options.ready_file is not None:
        partial = options.ready_file.with_name(options.ready_file.name + ".partial")
        partial.write_text(f"{port}\n")
        partial.replace(options.ready_file)


def _stop(server: StoreServer, engine: Engine) -> int:
    _logger.info("stopping: waiting for running queries")
    if server.drain(DRAIN_SECONDS):
        engine.close()
        _logger.info("stopped")
        return 0
    # Closing an engine under a running query is not safe; a killed one loses no acknowledged row.
    _logger.warning("queries still ran after %.0f s and were cut", DRAIN_SECONDS)
    logging.shutdown()
    os._exit(0)


def _parse(arguments: Sequence[str] | None) -> ServeOptions:
    parser = argparse.ArgumentParser(prog="python -m holter.pipeline.store.serve", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the store, made if missing")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port (default)")
    parser.add_argument("--credentials", type=Path, required=True, metavar="FILE", help="0600, one line user:password")
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help="gets the port once the store answers")
    parser.add_argument("--database", default="holter", help="database of Holter's tables (default: holter)")
    found = parser.parse_args(arguments)
    return ServeOptions(found.data, found.credentials, found.port, found.ready_file, found.database)


if __name__ == "__main__":
    sys.exit(main())
