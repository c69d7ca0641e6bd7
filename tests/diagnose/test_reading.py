"""Which files are whose log, and what damage in them costs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.diagnose.errors import UnusableLogs
from holter.pipeline.diagnose.log_folder import node_logs
from holter.pipeline.diagnose.log_lines import Intake, read_lines


def read(path: Path) -> tuple[list[str], Intake]:
    intake = Intake()
    return list(read_lines(path, intake)), intake


def write(path: Path, content: bytes = b"x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_node_is_a_file_with_its_rotated_ones_or_a_folder(tmp_path: Path) -> None:
    for name in ("b.log", "b.log.1", "b.log.10.gz", "a/rank1.err", "a/rank0.err", "10.0.0.7", ".hidden"):
        write(tmp_path / name)
    found = {log.node: [path.name for path in log.paths] for log in node_logs(tmp_path)}
    assert found == {
        "10.0.0.7": ["10.0.0.7"],
        "a": ["rank0.err", "rank1.err"],
        "b": ["b.log.10.gz", "b.log.1", "b.log"],
    }


def test_what_is_no_folder_of_logs_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnusableLogs, match="is not there"):
        node_logs(tmp_path / "gone")
    with pytest.raises(UnusableLogs, match="holds no files"):
        node_logs(tmp_path)
    with pytest.raises(UnusableLogs, match="is a file"):
        node_logs(write(tmp_path / "a.log"))


def test_long_lines_are_cut_and_counted(tmp_path: Path) -> None:
    lines, intake = read(write(tmp_path / "a.log", b"a" * 200_000 + b"\nshort\n" + b"b" * 2_001))
    assert [len(line) for line in lines] == [2_000, 5, 2_000]
    assert (intake.num_lines, intake.num_cut) == (3, 2)


def test_bytes_that_are_no_utf8_are_counted(tmp_path: Path) -> None:
    lines, intake = read(write(tmp_path / "a.log", b"good line of text here\n" * 9 + b"caf\xe9 \xff\n"))
    assert lines[-1] == "caf\ufffd \ufffd"
    assert intake.num_undecodable_bytes == 2


def test_of_a_progress_bar_the_last_state_counts(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.log", b" 10%\r 20%\rdone\r\n"))[0] == ["done"]


@pytest.mark.parametrize(("content", "reason"), [(b"", "it is empty"), (bytes(range(256)) * 9, "it is not text")])
def test_a_file_that_is_no_log_is_set_aside(tmp_path: Path, content: bytes, reason: str) -> None:
    path = write(tmp_path / "a.log", content)
    lines, intake = read(path)
    assert (lines, intake.set_aside) == ([], {str(path): reason})


def test_a_cut_gzip_gives_what_can_be_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(f"step {n} of many" for n in range(5_000)).encode())
    path = write(tmp_path / "a.log.gz", packed[: len(packed) // 2])
    lines, intake = read(path)
    assert len(lines) > 100
    assert "damaged gzip" in intake.set_aside[str(path)]


@given(st.binary(max_size=2_000), st.booleans())
def test_no_bytes_make_it_fail(tmp_path_factory: pytest.TempPathFactory, content: bytes, packed: bool) -> None:
    head = gzip.compress(b"step 1\n" * 99)[:200] if packed else b"step 1\n" * 99
    lines, intake = read(write(tmp_path_factory.mktemp("log") / "a.log", head + content))
    assert len(lines) == intake.num_lines
