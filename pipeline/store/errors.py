"""What the store may raise. ``retriable`` says whether the same request can succeed later without a change."""

from __future__ import annotations

import re
from typing import ClassVar

_CODE = re.compile(r"\bCode: (\d+)\.")

_DISK_FULL = "No space left on device"
_UNAVAILABLE_CODES = frozenset({3, 159, 209, 210, 279, 394, 425})
_OVERLOADED_CODES = frozenset({202, 241, 243, 252, 439, 745})


class StoreError(Exception):
    """Base of all; the message is one line for people.

    Attributes:
        code: ClickHouse's error code, 0 where the error is not of the engine.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StoreUnavailable(StoreError):
    """Nobody answers, or not in time."""

    retriable = True


class StoreOverloaded(StoreError):
    """The store is there and cannot take more now: too many parts or queries, memory or disk full."""

    retriable = True


class QueryRefused(StoreError):
    """The statement is wrong, forbidden or over a limit."""


class MigrationError(StoreError):
    """The migrations of the code and those that the store has seen do not fit together."""


class InvalidDsn(StoreError):
    """The DSN cannot be used; its password is never in the message."""


def code_of(message: str) -> int:
    """The ClickHouse code that an error text names, 0 where it names none.

    >>> code_of("Streaming insert failed: Code: 27. DB::Exception: Cannot parse input")
    27
    """
    found = _CODE.search(message)
    return int(found[1]) if found else 0


def store_error(message: str, code: int) -> StoreError:
    """The error that stands for a ClickHouse code."""
    if code in _OVERLOADED_CODES or _DISK_FULL in message:
        return StoreOverloaded(message, code)
    if code in _UNAVAILABLE_CODES:
        return StoreUnavailable(message, code)
    return QueryRefused(message, code)
