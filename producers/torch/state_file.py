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
        if is_plain:
            _lay_out(path, state)
            _fill(file, hashing, list(storages.values()))
        else:
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


def _lay_out(path: Path, state: dict[str, Any]) -> None:
    try:
        with torch.serialization.skip_data():
            torch.save(state, path)
    except RuntimeError as error:  # what its writer makes of a full disk
        raise OSError(f"{path.name} cannot be written: {str(error).splitlines()[0]}") from None


def _fill(file: BinaryIO, hashing: _HashingFile, storages: list[torch.UntypedStorage]) -> None:
    places = _places(file)
    if [size for _, size in places] != [storage.nbytes() for storage in storages]:
        raise OSError("torch laid the file out in another way than Holter knows")
    file.seek(0)
    for (start, size), storage in zip(places, storages, strict=True):
        hashing.pass_by(start - hashing.num_bytes)
        if size:
            hashing.write(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
    hashing.pass_by(-1)


def _places(file: BinaryIO) -> list[tuple[int, int]]:
    """Where the storages begin in an archive of torch's, and their sizes, in their order, which is the file's too."""
    with zipfile.ZipFile(file) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.split("/")[1] == "data"]
    places: list[tuple[int, int]] = []
    for entry in entries:
        file.seek(entry.header_offset + _LENGTHS_AT)
        start = entry.header_offset + _LOCAL_HEADER_SIZE + sum(_NAME_LENGTHS.unpack(file.read(_NAME_LENGTHS.size)))
        places.append((start, entry.file_size))
    return places


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
