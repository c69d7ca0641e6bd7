"""A spool gives back what was appended, whatever the machine did to its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.local.spool import MAGIC, Entry, Said, Spool, SpoolError, SpoolInUse, SpoolReader

ENTRIES = [Entry(1000 + number, "holter-telemetry", b"p/r", bytes([number]) * number) for number in range(1, 4)]
LAST = Entry(2000, "holter-telemetry", b"p/r", b"last", [Said("holter-signals", b"spike"), Said("holter-control", b"")])


def write(path: Path, entries: list[Entry]) -> None:
    spool = Spool.open(path)
    reader = SpoolReader(path)
    list(reader)
    spool.cut_torn_tail(reader.end)
    for entry in entries:
        spool.append(entry)
    spool.close()


def read(path: Path) -> list[Entry]:
    return list(SpoolReader(path))


def test_what_was_appended_is_read_in_order_also_after_a_second_opening(tmp_path: Path) -> None:
    path = tmp_path / "a" / "records.spool"
    write(path, ENTRIES)
    write(path, [LAST])
    assert read(path) == [*ENTRIES, LAST]
    reader = SpoolReader(path)
    list(reader)
    assert (reader.end, reader.num_bytes_left()) == (path.stat().st_size, 0)


def test_a_reader_goes_on_from_a_position(tmp_path: Path) -> None:
    path = tmp_path / "records.spool"
    write(path, ENTRIES)
    first = SpoolReader(path)
    list(first)
    write(path, [LAST])
    assert list(SpoolReader(path, first.end)) == [LAST]
    assert list(first) == [LAST]


def test_torn_at_every_byte_of_its_last_frame_it_loses_that_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "records.spool"
    write(path, ENTRIES)
    kept = path.stat().st_size
    write(path, [LAST])
    whole = path.read_bytes()
    for size in range(kept, len(whole)):
        path.write_bytes(whole[:size])
        assert read(path) == ENTRIES
        write(path, [LAST])
        assert read(path) == [*ENTRIES, LAST]
        torn = path.with_name(f"records.spool.torn-{kept}")
        assert (torn.read_bytes() if size > kept else b"") == whole[kept:size]
        torn.unlink(missing_ok=True)


@pytest.mark.parametrize("tail", [bytes(1), bytes(4096), b"\xff" * 20, b"\0\0\0\x05\0\0\0\0worse"])
def test_what_a_power_cut_leaves_at_the_end_is_no_entry(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "records.spool"
    write(path, ENTRIES)
    with path.open("ab") as stream:
        stream.write(tail)
    reader = SpoolReader(path)
    assert list(reader) == ENTRIES
    assert reader.num_bytes_left() == len(tail)
    write(path, [])
    assert path.stat().st_size == reader.end
    write(path, [LAST])
    assert read(path) == [*ENTRIES, LAST]


def test_a_damaged_frame_in_the_middle_costs_that_frame_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.spool"
    write(path, [ENTRIES[0]])
    position = path.stat().st_size - 1
    write(path, [*ENTRIES[1:], LAST])
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)
    assert read(path) == [*ENTRIES[1:], LAST]


@pytest.mark.parametrize("size", range(len(MAGIC)))
def test_a_file_that_was_torn_while_it_was_made_is_a_new_spool(tmp_path: Path, size: int) -> None:
    path = tmp_path / "records.spool"
    path.write_bytes(MAGIC[:size])
    write(path, ENTRIES)
    assert read(path) == ENTRIES


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "records.spool"
    spool = Spool.open(path)
    with pytest.raises(SpoolInUse, match="another process"):
        Spool.open(path)
    spool.close()
    Spool.open(path).close()


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.spool"
    path.write_bytes(b"a diary, longer than the magic is")
    with pytest.raises(SpoolError, match="no spool"):
        Spool.open(path)
    with pytest.raises(SpoolError, match="no spool"):
        SpoolReader(path)
    with pytest.raises(SpoolError, match="cannot be read"):
        SpoolReader(tmp_path / "missing")
    assert path.read_bytes() == b"a diary, longer than the magic is"


def test_a_full_disk_leaves_the_spool_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.spool"
    write(path, ENTRIES)
    before, real = path.read_bytes(), os.pwrite
    spool = Spool.open(path)
    spool.cut_torn_tail(path.stat().st_size)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, raw, at: real(fd, raw[:5], at))
        with pytest.raises(OSError, match="only 5 of"):
            spool.append(LAST)
    assert path.read_bytes() == before
    spool.append(LAST)
    spool.close()
    assert read(path) == [*ENTRIES, LAST]


@given(data=st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_whatever_the_bytes_reading_ends(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("spool") / "records.spool"
    path.write_bytes(MAGIC + data)
    reader = SpoolReader(path)
    list(reader)
    assert len(MAGIC) <= reader.end <= len(MAGIC) + len(data)
