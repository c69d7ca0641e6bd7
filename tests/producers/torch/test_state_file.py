"""The file of a state is one of torch's own, whatever the way its numbers came into it."""

from __future__ import annotations

import hashlib
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holter.producers.torch.snapshot import Snapshots
from holter.producers.torch.state_file import write_state

_NUMBERS = st.one_of(st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=3), st.none())
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)
_TENSORS = st.builds(
    lambda shape, dtype, seed: torch.randint(2, shape, generator=torch.Generator().manual_seed(seed)).to(dtype),
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from(_DTYPES),
    st.integers(0, 100),
)
_VALUES = st.recursive(
    _NUMBERS | _TENSORS,
    lambda children: (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), children, max_size=4)
    ),
    max_leaves=12,
)
_STATES = st.dictionaries(st.text(max_size=5), _VALUES, max_size=4)


@given(state=_STATES)
def test_torch_reads_back_what_was_written(state: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "state.pt"

    written = write_state(path, state)

    assert written.is_plain
    assert _is_same(torch.load(path, weights_only=True), state)
    assert _is_as_said(path, written)


@given(state=_STATES)
def test_a_snapshot_is_written_as_what_it_is_of(
    state: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, snapshots = tmp_path_factory.getbasetemp() / "snapshot.pt", Snapshots()
    for _ in range(2):  # the second is taken into the buffers of the first
        write_state(path, snapshots.take(state))

    assert _is_same(torch.load(path, weights_only=True), state)


def test_views_of_one_storage_stay_views_of_one(tmp_path: Path) -> None:
    whole = torch.arange(10_000, dtype=torch.float32)
    state = {"a": whole[:10], "b": [whole[5:].view(5, -1), whole.t()], "c": torch.ones(2)}

    written = write_state(tmp_path / "state.pt", state)
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)

    assert _is_same(loaded, state)
    assert loaded["a"].untyped_storage().data_ptr() == loaded["b"][1].untyped_storage().data_ptr()
    assert written.num_bytes < 2 * whole.nbytes


def test_a_dozen_storages_of_one_size_keep_their_places(tmp_path: Path) -> None:
    state = {f"w{number}": torch.full((7,), float(number)) for number in range(12)}

    write_state(tmp_path / "state.pt", state)

    assert _is_same(torch.load(tmp_path / "state.pt", weights_only=True), state)


def test_places_are_told_by_their_numbers_in_whatever_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.6 orders storages."""
    save = torch.serialization._save
    state = {f"w{number}": torch.full((7,), float(number)) for number in range(12)}

    class ByDigits:
        """A writer of archives that puts storages down in the order of their digits, once all are known."""

        def __init__(self, writer: Any) -> None:
            self._writer, self._kept = writer, []

        def __getattr__(self, name: str) -> Any:
            return getattr(self._writer, name)

        def write_record_metadata(self, name: str, size: int) -> None:
            self._kept.append((name, size))
            if len(self._kept) == len(state):
                for each in sorted(self._kept):
                    self._writer.write_record_metadata(*each)

    monkeypatch.setattr(torch.serialization, "_save", lambda obj, zip_file, *rest: save(obj, ByDigits(zip_file), *rest))
    write_state(tmp_path / "state.pt", state)
    with zipfile.ZipFile(tmp_path / "state.pt") as archive:
        names = [entry.filename.split("/")[-1] for entry in archive.infolist() if "/data/" in entry.filename]

    assert names[:4] == ["0", "1", "10", "11"]
    assert _is_same(torch.load(tmp_path / "state.pt", weights_only=True), state)


def test_a_layout_that_is_not_known_is_written_as_torch_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "infolist", lambda _: [])
    state = {"w": torch.ones(100)}

    written = write_state(tmp_path / "state.pt", state)

    assert _is_same(torch.load(tmp_path / "state.pt", weights_only=True), state)
    assert _is_as_said(tmp_path / "state.pt", written)


@pytest.mark.parametrize(
    "odd",
    [torch.eye(3).to_sparse(), torch.nn.Parameter(torch.ones(2)), OrderedDict(a=torch.ones(3)), torch.float32],
    ids=["sparse", "parameter", "ordered", "dtype"],
)
def test_what_is_not_plain_is_written_as_torch_does(odd: Any, tmp_path: Path) -> None:
    written = write_state(tmp_path / "state.pt", {"odd": odd, "dense": torch.ones(2)})

    loaded = torch.load(tmp_path / "state.pt", weights_only=True)

    assert not written.is_plain
    assert type(loaded["odd"]) is type(odd)
    assert loaded["dense"].tolist() == [1.0, 1.0]
    assert _is_as_said(tmp_path / "state.pt", written)


def test_the_hash_is_of_what_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    written = write_state(path, {"w": torch.ones(100_000)})
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(b"\xff")

    assert not _is_as_said(path, written)


@pytest.mark.parametrize("state", [{"w": torch.ones(10)}, {"w": torch.eye(3).to_sparse()}], ids=["plain", "sparse"])
def test_a_folder_that_is_not_there_is_an_error_of_the_disk(state: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_state(tmp_path / "gone" / "state.pt", state)


def _is_as_said(path: Path, written: Any) -> bool:
    raw = path.read_bytes()
    return (len(raw), hashlib.sha256(raw).hexdigest()) == (written.num_bytes, written.sha256)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and bool(one == other)
