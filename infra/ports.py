"""Free loopback ports, kept over restarts where they stay free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping

from holter.infra.errors import StackError

LOOPBACK = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections: a port kept here is still free tomorrow.
PORT_RANGE = range(20_000, 32_000)
_MAX_TRIES = 1_000


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def accepts_connections(port: int, timeout_seconds: float = 1.0) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout_seconds):
            return True
    except OSError:
        return False


def allot(names: Iterable[str], known: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """A free port for each name: the known one where it is still free, else a random one.

    Raises:
        StackError: no port was found free.
    """
    allotted: dict[str, int] = {}
    for name in names:
        port = known.get(name)
        if port is None or not is_free(port):
            port = _draw(rng, taken={*known.values(), *allotted.values()})
        allotted[name] = port
    return allotted


def _draw(rng: random.Random, taken: set[int]) -> int:
    for _ in range(_MAX_TRIES):
        port = rng.choice(PORT_RANGE)
        if port not in taken and is_free(port):
            return port
    raise StackError(f"no free port between {PORT_RANGE.start} and {PORT_RANGE.stop} on {LOOPBACK}")
