"""Whatever a file holds, it is read or refused; nothing else happens."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.replay.detection import FORMATS
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.judge import judge
from holter.pipeline.replay.log import Log
from holter.pipeline.replay.reading import read_log
from tests.replay.snippets import SNIPPETS

CONTENTS = st.sampled_from([snippet.content for snippet in SNIPPETS.values()])
NAMES = st.sampled_from([None, *FORMATS])
TOKENS = st.sampled_from(
    [
        b"nan",
        b"1e999",
        b"-1",
        b"9" * 400,
        b"[",
        b"{",
        b'"',
        b"\0",
        b"\xff\xfe",
        b"\n",
        b",",
        b"[" * 5000,
        b"step 1 loss 2\n",
    ]
)


def readable(content: bytes, format_name: str | None) -> Log | None:
    """The log; None where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.log")
        path.write_bytes(content)
        try:
            return read_log(path, format_name=format_name)
        except UnreadableLog as refused:
            reason = str(refused)
    assert "\n" not in reason
    return None


def check(log: Log | None) -> None:
    if log is not None:
        assert log.num_rows > 0
        assert all(len(column) == log.num_rows for column in log.metrics.values())
        for _ in judge(log.records()):
            pass


@given(CONTENTS, st.lists(st.tuples(st.floats(0, 1), TOKENS), max_size=4), NAMES)
def test_damaged_logs(content: bytes, splices: list[tuple[float, bytes]], format_name: str | None) -> None:
    for share, token in splices:
        at = int(share * len(content))
        content = content[:at] + token + content[at + len(token) :]
    check(readable(content, format_name))


@given(CONTENTS, st.floats(0, 1), st.booleans(), NAMES)
def test_truncated_logs(content: bytes, share: float, is_gzipped: bool, format_name: str | None) -> None:
    content = gzip.compress(content) if is_gzipped else content
    check(readable(content[: int(share * len(content))], format_name))


@given(st.binary(max_size=400), NAMES)
def test_arbitrary_bytes(content: bytes, format_name: str | None) -> None:
    check(readable(content, format_name))


@settings(max_examples=50)
@given(CONTENTS, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6))
def test_flipped_bytes(content: bytes, flips: list[tuple[float, int]]) -> None:
    damaged = bytearray(content)
    for share, value in flips:
        damaged[min(len(damaged) - 1, int(share * len(damaged)))] = value
    check(readable(bytes(damaged), None))
