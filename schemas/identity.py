"""Who a record is about, and ids that every replay computes again."""

from __future__ import annotations

import hashlib

import msgspec

from holter.schemas.bounds import MAX_KEY_BYTES
from holter.schemas.errors import InvalidRecord

IdPart = str | int


def run_key(project: str, run: str) -> str:
    """The Kafka key of everything about one run.

    Raises:
        InvalidRecord: the key would be longer than 200 bytes in UTF-8, or a part is empty or has a ``/``.

    >>> run_key("gpt-small", "lr-3e-4")
    'gpt-small/lr-3e-4'
    """
    if not project or not run or "/" in project or "/" in run:
        raise InvalidRecord("wrong_key", f"project {project!r} and run {run!r} must be non-empty and without '/'")
    key = f"{project}/{run}"
    if len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidRecord("wrong_key", f"project/run is {len(key.encode())} bytes, the limit is {MAX_KEY_BYTES}")
    return key


def record_id(*parts: IdPart) -> str:
    """A deterministic id of 32 hex digits; parts are framed, so that ("a", "bc") and ("ab", "c") differ.

    >>> len(record_id("holter-signals", "gpt-small", "lr-3e-4", 1, 0, 17, "open"))
    32
    >>> record_id("a", "bc") == record_id("ab", "c")
    False
    """
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).hexdigest()
