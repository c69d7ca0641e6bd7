"""Records that no operator may see, with where they lay."""

from __future__ import annotations

from holter.jobs import frames
from holter.jobs.frames import Frame
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.errors import InvalidRecord, Reason

MAX_DETAIL_CHARACTERS = 2000
_REASONS: tuple[tuple[int, Reason, str], ...] = (
    (frames.KEY_MISSING, "wrong_key", "the record has no key"),
    (frames.KEY_TOO_LONG, "wrong_key", "the key is too long"),
    (frames.KEY_NOT_UTF8, "wrong_key", "the key is not UTF-8"),
    (frames.VALUE_TOO_LONG, "oversized", "the value is too long"),
    (frames.VALUE_MISSING, "malformed", "the record has no value"),
)


def refusal_of(flags: int) -> InvalidRecord:
    """Why a flagged frame is refused; of several flags the first in the order above is to blame."""
    return next(InvalidRecord(reason, detail) for flag, reason, detail in _REASONS if flags & flag)


def dead_letter(frame: Frame, refusal: InvalidRecord, reader: str, ts_ms: int) -> DeadLetter:
    """The frame's record with where it lay and why it was refused."""
    return DeadLetter(
        topic=frame.topic,
        partition=frame.partition,
        offset=frame.offset,
        ts=ts_ms,
        reason=refusal.reason,
        detail=refusal.detail[:MAX_DETAIL_CHARACTERS],
        reader=reader,
        num_bytes=frame.num_value_bytes,
        key=frame.key,
        value=frame.value,
    )
