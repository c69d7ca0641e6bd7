"""HTTP sessions: one kept engine connection each, so that SET, USE and temporary tables last between requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holter.pipeline.store.engine import Connection
from holter.pipeline.store.errors import QueryRefused, StoreOverloaded

SESSION_NOT_FOUND = 372
SESSION_IS_LOCKED = 373
TOO_MANY_QUERIES = 202
MAX_TIMEOUT_SECONDS = 3600.0
MAX_SESSIONS = 200


@dataclass
class _Session:
    connection: Connection
    expires_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Sessions:
    """Sessions by id. A second request in a busy one is refused, an idle one ends after its timeout.

    Idle sessions are ended when another one is opened; there is no thread for it.
    """

    def __init__(self, connect: Callable[[], Connection], clock: Callable[[], float] = time.monotonic) -> None:
        self._connect = connect
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    @contextmanager
    def use(self, session_id: str, timeout_seconds: float, must_exist: bool) -> Iterator[Connection]:
        """The session's connection, alone.

        Raises:
            QueryRefused: it is in use, or must exist and does not.
            StoreOverloaded: there are too many.
        """
        session = self._acquire(session_id, must_exist)
        try:
            yield session.connection
        finally:
            session.expires_at = self._clock() + min(max(timeout_seconds, 0.0), MAX_TIMEOUT_SECONDS)
            session.lock.release()

    def close(self) -> None:
        with self._lock:
            for session in self._sessions.values():
                session.connection.close()
            self._sessions.clear()

    def _acquire(self, session_id: str, must_exist: bool) -> _Session:
        with self._lock:
            self._end_idle()
            session = self._sessions.get(session_id)
            if session is None:
                session = self._open(session_id, must_exist)
            if not session.lock.acquire(blocking=False):
                raise QueryRefused(f"Session {session_id} is locked by a concurrent client", SESSION_IS_LOCKED)
            return session

    def _open(self, session_id: str, must_exist: bool) -> _Session:
        if must_exist:
            raise QueryRefused(f"Session {session_id} not found", SESSION_NOT_FOUND)
        if len(self._sessions) >= MAX_SESSIONS:
            raise StoreOverloaded(f"more than {MAX_SESSIONS} sessions are open", TOO_MANY_QUERIES)
        session = self._sessions[session_id] = _Session(self._connect())
        return session

    def _end_idle(self) -> None:
        now = self._clock()
        for session_id, session in list(self._sessions.items()):
            if session.expires_at <= now and session.lock.acquire(blocking=False):
                session.connection.close()
                del self._sessions[session_id]
