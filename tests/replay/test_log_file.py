from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.log_file import HEAD_BYTES, LogFile
from holter.pipeline.replay.reading import read_log

CUT = "the gzip file is cut short: what could be unpacked was used"


def noise_csv(num_rows: int) -> bytes:
    noise = random.Random(5)
    return ("step,loss\n" + "".join(f"{step},{noise.gauss(2, 0.1)!r}\n" for step in range(num_rows))).encode()


def test_a_gzip_file_that_is_cut_gives_its_whole_lines(tmp_path: Path) -> None:
    content = noise_csv(5_000)
    packed = gzip.compress(content)
    path = tmp_path / "run.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    log = read_log(path)
    assert log.notes == [CUT]
    assert 2_000 < log.num_rows < 3_000
    assert log.steps == list(range(log.num_rows))
    assert content.startswith(b"".join(line.encode() for line in LogFile(path).lines()))


@pytest.mark.parametrize("num_bytes", [3, 12, 20])
def test_a_gzip_file_of_which_nothing_is_left_is_refused(tmp_path: Path, num_bytes: int) -> None:
    path = tmp_path / "run.csv.gz"
    path.write_bytes(gzip.compress(noise_csv(100))[:num_bytes])
    with pytest.raises(UnreadableLog, match="nothing of the gzip file can be unpacked"):
        LogFile(path)


def test_an_empty_gzip_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "run.csv.gz"
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(UnreadableLog, match="it is empty"):
        LogFile(path)


def test_a_log_is_read_whatever_ends_its_lines(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        path = tmp_path / "run.csv"
        path.write_bytes(b"\xef\xbb\xbf" + f"step,loss{end}1,2.0{end}2,3.0".encode())
        assert list(read_log(path).metrics.values()) == [[2.0, 3.0]]


def test_the_head_of_a_long_file_ends_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"step,loss\n" + b"1000,2.25\n" * (HEAD_BYTES // 10 + 10))
    file = LogFile(path)
    assert len(file.head) == HEAD_BYTES
    assert file.head_text.endswith("1000,2.25\n")


def test_progress_bars_overwrite_with_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"step 1 loss 2.0\r 50%|####    |\rstep 2 loss 1.5\r100%|########|\n")
    assert read_log(path).steps == [1, 2]
