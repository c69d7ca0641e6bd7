"""One state as a file that ``torch.load`` reads.

``torch.save`` keeps the interpreter until the last byte is written, and the training thread, which needs it between
its kernels, stands still meanwhile. So torch lays the file out without the numbers (``torch.serialization.skip_data``),
and these are written after it into the places that it left for them, which takes a system call for each storage.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import torch

from holter.producers.torch.snapshot import IMMUTABLE

_NAME_LENGTHS = struct.Struct("<HH")
_LENGTHS_AT, _LOCAL_HEADER_SIZE = 26, 30
"""Of a local file header, by the ZIP specification (APPNOTE 4.3.7): the lengths of the name and of what is extra, and
all before these two."""


class _Place(NamedTuple):
    """Where an archive of torch's has room for a storage; ``number`` is the one that pickle met so many before."""

    start: int
    size: int
    number: int


class Written(NamedTuple):
    num_bytes: int
    sha256: str
    """Of what was to be written, whatever the disk made of it."""
    is_plain: bool
    """Whether the state holds nothing but plain values and dense tensors."""


def write_state(path: Path, state: dict[str, Any]) -> Written:
    """Returns once the file is on the disk. A plain state's tensors have to lie in host memory.

    Raises:
        OSError: the disk did not take it.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    is_plain = _collect(state, storages)
    with path.open("w+b") as file:
        hashing = _HashingFile(file)
        places = _lay_out(path, state, file) if is_plain else []
        if is_plain and _fit(places, list(storages.values())):
            _fill(hashing, places, list(storages.values()))
        else:  # also where a torch lays files out in a way that is not known here
            file.truncate(0)
            torch.save(state, cast("BinaryIO", hashing))
        file.flush()
        os.fsync(file.fileno())
    return Written(hashing.num_bytes, hashing.sha256.hexdigest(), is_plain)


def _collect(value: Any, storages: dict[int, torch.UntypedStorage]) -> bool:
    """Adds the storages in the order in which pickle meets them; whether all is plain."""
    if type(value) is dict:
        return all(_collect(key, storages) and _collect(child, storages) for key, child in value.items())
    if type(value) in (list, tuple):
        return all(_collect(child, storages) for child in value)
    if type(value) is torch.Tensor and value.layout == torch.strided and not value.is_quantized:
        storage = value.untyped_storage()
        storages.setdefault(storage._cdata, storage)
        return True
    return type(value) in IMMUTABLE


def _lay_out(path: Path, state: dict[str, Any], file: BinaryIO) -> list[_Place]:
    """The places of the storages, as they follow each other in the file, whose position is its beginning after it."""
    try:
        with torch.serialization.skip_data():
            torch.save(state, path)
    except RuntimeError as error:  # what its writer makes of a full disk
        raise OSError(f"{path.name} cannot be written: {str(error).splitlines()[0]}") from None
    with zipfile.ZipFile(file) as archive:
        names = [(entry, entry.filename.split("/")) for entry in archive.infolist()]
    places: list[_Place] = []
    for entry, (_, folder, *number) in names:
        if folder == "data":
            file.seek(entry.header_offset + _LENGTHS_AT)
            lengths = _NAME_LENGTHS.unpack(file.read(_NAME_LENGTHS.size))
            start = entry.header_offset + _LOCAL_HEADER_SIZE + sum(lengths)
            places.append(_Place(start, entry.file_size, int(number[0])))
    file.seek(0)
    return places


def _fit(places: list[_Place], storages: list[torch.UntypedStorage]) -> bool:
    sizes = {place.number: place.size for place in places}
    return sizes == {number: storage.nbytes() for number, storage in enumerate(storages)}


def _fill(hashing: _HashingFile, places: list[_Place], storages: list[torch.UntypedStorage]) -> None:
    """Older versions of torch order storages by the digits of their numbers, so that 10 comes before 2."""
    for place in places:
        hashing.pass_by(place.start - hashing.num_bytes)
        if place.size:
            hashing.write(torch.empty(0, dtype=torch.uint8).set_(storages[place.number]).numpy())
    hashing.pass_by(-1)


class _HashingFile:
    """Hashes what is written or read through it, so that the file need not be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self._file = file

    def write(self, data: Any) -> int:
        self._file.write(data)
        return self._hash(data)

    def pass_by(self, size: int) -> None:
        """Leaves that many bytes as they are, or (-1) all that are left."""
        self._hash(self._file.read(size))

    def flush(self) -> None:
        self._file.flush()

    def _hash(self, data: Any) -> int:
        self.sha256.update(data)
        size = memoryview(data).nbytes
        self.num_bytes += size
        return size
