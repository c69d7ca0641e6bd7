from __future__ import annotations

import pytest

from holter.jobs import frames
from holter.jobs.dead_letters import dead_letter, refusal_of
from holter.jobs.frames import Frame
from holter.schemas import InvalidRecord, codec, encode


def flagged(flags: int) -> Frame:
    return Frame(flags, "t-a", 2, 7, 1_700_000_000_000, b"\xff", b"cut", 400_000)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (frames.KEY_MISSING, "wrong_key"),
        (frames.KEY_NOT_UTF8, "wrong_key"),
        (frames.KEY_TOO_LONG, "wrong_key"),
        (frames.VALUE_TOO_LONG, "oversized"),
        (frames.VALUE_MISSING, "malformed"),
        (frames.KEY_MISSING | frames.VALUE_MISSING, "wrong_key"),
    ],
)
def test_every_flag_has_a_reason(flags: int, reason: str) -> None:
    assert refusal_of(flags).reason == reason


def test_letter_keeps_the_position_and_survives_encoding() -> None:
    letter = dead_letter(flagged(frames.VALUE_TOO_LONG), InvalidRecord("oversized", "x" * 9000), "watch", ts_ms=5)
    assert (letter.topic, letter.partition, letter.offset, letter.num_bytes) == ("t-a", 2, 7, 400_000)
    assert codec.dead_letters.decode(encode(letter)) == letter
