"""What a reader may raise about bytes that came from elsewhere."""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "oversized",
    "malformed",
    "unknown_kind",
    "unknown_version",
    "wrong_type",
    "inconsistent",
    "wrong_key",
    "bad_signature",
    "unknown_key_id",
    "wrong_role",
    "defect",
]
"""Why a record was set aside; a closed set, so that it can label a counter. At a ``defect`` the reader is to blame."""


class InvalidRecord(Exception):
    """Bytes that are not a record of this topic: set aside with the reason, never retried.

    Attributes:
        reason: one of :data:`Reason`.
        detail: for people; names the field where one is to blame.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[InvalidRecord], tuple[Reason, str]]:
        return InvalidRecord, (self.reason, self.detail)
