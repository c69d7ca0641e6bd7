"""The embedded store as tests run it: a real process on a free port, with its own folder."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from holter.pipeline.store.dsn import Dsn

START_SECONDS = 60.0


@dataclass
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def code(self) -> str | None:
        return self.headers["X-ClickHouse-Exception-Code"]


class EmbeddedStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.dsn = Dsn("127.0.0.1", 0)

    def start(self, port: int = 0) -> None:
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "holter.pipeline.store.serve", "--data", str(self._folder / "data")]
        command += ["--credentials", str(self.credentials_file), "--ready-file", str(ready), "--port", str(port)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._await(ready)
        user, _, password = self.credentials_file.read_text().strip().partition(":")
        self.dsn = Dsn("127.0.0.1", int(ready.read_text()), user, password)

    @property
    def credentials_file(self) -> Path:
        return self._folder / "credentials"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def stop(self) -> int:
        """The exit status after SIGTERM."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(30)

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def ask(
        self,
        sql: str | bytes,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        body: bytes | None = None,
    ) -> Reply:
        """One request with the right password unless ``headers`` say otherwise; ``body`` moves the SQL to the URL."""
        given = dict(params or {})
        if body is not None or method == "GET":
            given["query"] = sql if isinstance(sql, str) else sql.decode()
        sent = body if body is not None else (sql.encode() if isinstance(sql, str) else sql)
        login = {"X-ClickHouse-User": self.dsn.user, "X-ClickHouse-Key": self.dsn.password}
        connection = http.client.HTTPConnection(self.dsn.host, self.dsn.port, timeout=30)
        try:
            connection.request(
                method, f"/?{urlencode(given)}", None if method == "GET" else sent, {**login, **(headers or {})}
            )
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()

    def _await(self, ready: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the store did not start:\n{self.log}")
            time.sleep(0.02)
