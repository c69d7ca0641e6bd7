"""The process that owns the embedded store."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from holter.infra.components.daemon import Daemon, Launch
from holter.infra.ports import LOOPBACK
from holter.pipeline.store.credentials import read_or_create
from holter.pipeline.store.dsn import Dsn

_PING_TIMEOUT_SECONDS = 2


class Store(Daemon):
    """Migrates before it listens: once it answers, the tables are those of this version."""

    name = "store"
    port_names = ("store",)
    stop_deadline_seconds = 30.0  # it waits 20 s for running queries

    def launch(self) -> Launch:
        command = (
            *(self.context.settings.python, "-m", "holter.pipeline.store.serve"),
            *("--data", str(self._data), "--port", str(self.context.port("store"))),
            *("--credentials", str(self.context.layout.credentials)),
        )
        self._data.parent.mkdir(parents=True, exist_ok=True)
        return Launch(command=command, environment=self.context.python_environment())

    def is_ready(self) -> bool:
        try:
            url = f"http://{self.context.address('store')}/ping"
            with urllib.request.urlopen(url, timeout=_PING_TIMEOUT_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def on_ready(self) -> None:
        self.context.state_file.set(store_dsn=self._dsn().url)

    def _dsn(self) -> Dsn:
        credentials = read_or_create(self.context.layout.credentials)
        return Dsn(LOOPBACK, self.context.port("store"), credentials.user, credentials.password)

    @property
    def _data(self) -> Path:
        return self.context.layout.data(self.name)
