"""The spool: what a run said, in order, in one file that is only ever appended to.

The file begins with :data:`MAGIC`; frames follow: length and CRC-32 of the body, uint32 big-endian each, then the
body, an :class:`Entry` in msgpack. A frame that was being written when the machine stopped is not there whole, or
its checksum does not hold: it is cut off when the file is opened again, and kept beside it. Written through to the
operating system at every record (a killed process loses none), to the disk when the spool is closed.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

MAGIC = b"holter spool 1\n\n"
MAX_BODY_BYTES = 64 * 1024 * 1024

_HEAD = struct.Struct(">II")


class SpoolError(Exception):
    """The spool cannot be used; the message says why."""


class SpoolInUse(SpoolError):
    """Another process writes it."""


class Said(NamedTuple):
    """What the stages said of an entry."""

    topic: str
    value: bytes


class Entry(Struct, array_like=True, frozen=True):
    """One message of a trainer and, in the same frame, what was said of it: both are there, or neither is."""

    ts: int
    """When it came, in ms: the ``now`` that it was judged with."""
    topic: str
    key: bytes
    value: bytes
    said: list[Said] = []


class Frame(NamedTuple):
    body: bytes
    end: int
    """The position in the file after it."""


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Entry).decode


def framed(body: bytes) -> bytes:
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def intact_frames(stream: BinaryIO, position: int) -> Iterator[Frame]:
    """Frames from a position on. One whose checksum fails is passed over; one that is not there whole ends them."""
    stream.seek(position)
    while len(head := stream.read(_HEAD.size)) == _HEAD.size:
        size, checksum = _HEAD.unpack(head)
        body = stream.read(size) if 0 < size <= MAX_BODY_BYTES else b""
        if len(body) < max(1, size):
            return
        position += len(head) + size
        if zlib.crc32(body) == checksum:
            yield Frame(body, position)


class SpoolReader:
    """Iterates the entries from a position on, also of a spool that is still being written.

    Attributes:
        end: the position after the last entry that was given.
        num_unreadable: frames that are whole and yet no entries.

    Raises:
        SpoolError: the file is missing or no spool.
    """

    def __init__(self, path: Path, position: int = 0) -> None:
        self.path = path
        self.end = max(position, len(MAGIC))
        self.num_unreadable = 0
        try:
            with path.open("rb") as stream:
                magic = stream.read(len(MAGIC))
        except OSError as error:
            raise SpoolError(f"{path} cannot be read: {error.strerror}") from None
        if magic != MAGIC:
            raise SpoolError(f"{path} is no spool of Holter's")

    def __iter__(self) -> Iterator[Entry]:
        with self.path.open("rb") as stream:
            for frame in intact_frames(stream, self.end):
                self.end = frame.end
                try:
                    yield _DECODE(frame.body)
                except msgspec.MsgspecError:
                    self.num_unreadable += 1

    def num_bytes_left(self) -> int:
        """Bytes after the last entry that was given."""
        return max(0, self.path.stat().st_size - self.end)


class Spool:
    """The one writer of a spool; :meth:`open` makes it. ``end`` is the length of the file."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.end = len(MAGIC)
        self._fd = fd

    @classmethod
    def open(cls, path: Path) -> Spool:
        """Opens or makes the file, and locks it. :meth:`cut_torn_tail` has to come before the first append.

        Raises:
            SpoolInUse: another process has it.
            SpoolError: the file is no spool.
            OSError: it cannot be made.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(fd, path)
            if os.fstat(fd).st_size < len(MAGIC):  # new, or torn while it was made
                os.ftruncate(fd, 0)
                os.pwrite(fd, MAGIC, 0)
            SpoolReader(path)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd)

    def cut_torn_tail(self, end: int) -> int:
        """Cuts off what lies after the last entry, at ``end``, and keeps it beside; the number of its bytes."""
        self.end = end
        size = os.fstat(self._fd).st_size
        if size > end:
            self.path.with_name(f"{self.path.name}.torn-{end}").write_bytes(os.pread(self._fd, size - end, end))
            os.ftruncate(self._fd, end)
        return size - end

    def append(self, entry: Entry) -> None:
        """Raises OSError where it cannot be written whole; the file is then as before."""
        raw = framed(_ENCODE(entry))
        try:
            written = os.pwrite(self._fd, raw, self.end)
            if written < len(raw):
                raise OSError(28, f"only {written} of {len(raw)} bytes could be written to {self.path}")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.end)
            raise
        self.end += len(raw)

    def close(self) -> None:
        """Never raises."""
        with suppress(OSError):
            os.fsync(self._fd)
        with suppress(OSError):
            os.close(self._fd)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SpoolInUse(f"{path} is being written by another process") from None
    except OSError:
        return  # a file system without locks
