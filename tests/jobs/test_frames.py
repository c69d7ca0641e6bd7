from __future__ import annotations

import pytest

from holter.jobs import frames
from holter.jobs.frames import Frame

# What KeyFrameDeserializer writes for this record; changing it breaks jobs whose jar is of another release.
GOLDEN = bytes.fromhex("00 03 0003 00000002 0000000000000007 0000019aeb1f2c00 00000005 742d61 702f72 68656c6c6f")
FRAME = Frame(0, "t-a", 2, 7, 0x19AEB1F2C00, b"p/r", b"hello", 5)


def test_golden_frame_is_read_and_written() -> None:
    assert frames.parse(GOLDEN) == FRAME
    assert frames.build(FRAME) == GOLDEN


def test_lengths_agree_with_the_whole_frame() -> None:
    assert frames.unpack_lengths(GOLDEN) == (0, 3, 3)


@pytest.mark.parametrize("key", [b"", b"p/r", b"\xff" * 1024])
@pytest.mark.parametrize("value", [b"", b"\x00" * 300])
def test_build_then_parse_is_identity(key: bytes, value: bytes) -> None:
    frame = Frame(frames.VALUE_TOO_LONG, "tööpic", 3, 2**40, -1, key, value, 2**20)
    assert frames.parse(frames.build(frame)) == frame


@pytest.mark.parametrize("parts", [[], [GOLDEN], [GOLDEN, b"", b"x" * 70_000, GOLDEN]])
def test_gather_then_split_is_identity(parts: list[bytes]) -> None:
    assert frames.split(frames.gather(*parts)) == parts


def test_length_of_a_gathered_frame_is_big_endian() -> None:
    assert frames.gather(b"ab") == b"\x00\x00\x00\x02ab"


def test_output_frame() -> None:
    assert frames.build_output(3, b"p/r", b"v") == b"\x03\x03p/rv"
    assert frames.parse_output(b"\x03\x03p/rv") == (3, b"p/r", b"v")
