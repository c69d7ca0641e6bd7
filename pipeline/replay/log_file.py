"""A log on disk, plain or gzipped, as its readers see it: damage at its end costs the end and nothing else."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from holter.pipeline.replay.errors import UnreadableLog

HEAD_BYTES = 1 << 20
_Readable = gzip.GzipFile | io.BufferedReader
_GZIP_MAGIC = b"\x1f\x8b"
_CUT_GZIP = "the gzip file is cut short: what could be unpacked was used"


class LogFile:
    """Each call reads from the beginning. ``notes`` gathers what the user should know of the file's state.

    Attributes:
        head: the first megabyte, unpacked.

    Raises:
        UnreadableLog: the file cannot be opened, or nothing is in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self._is_gzip = self._starts_with(_GZIP_MAGIC)
        with self._open() as handle:
            self.head = b"".join(self._chunks(handle, HEAD_BYTES))
        if not self.head.strip(b"\0 \t\r\n"):
            raise UnreadableLog("nothing of the gzip file can be unpacked" if self.notes else "it is empty")

    @cached_property
    def head_text(self) -> str:
        """The head as text: of a head that does not hold the whole file only whole lines."""
        text = _decoded(self.head)
        return text if len(self.head) < HEAD_BYTES else text[: text.rfind("\n") + 1] or text

    def lines(self) -> Iterator[str]:
        """The lines with their ends. A carriage return ends a line, too: progress bars write one over another."""
        with self._open() as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace") as text:
            while line := self._next_line(text):
                yield line

    def content(self) -> bytes:
        """The whole of it, unpacked."""
        with self._open() as handle:
            return b"".join(self._chunks(handle, None))

    def text(self) -> str:
        return _decoded(self.content())

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _next_line(self, text: io.TextIOWrapper) -> str:
        """The next line, "" at the end; a half line before a cut is no line."""
        try:
            return text.readline()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.note(_CUT_GZIP)
            return ""

    def _chunks(self, handle: _Readable, limit: int | None) -> Iterator[bytes]:
        left = limit
        while left is None or left > 0:
            try:
                chunk = handle.read1(min(left or HEAD_BYTES, 1 << 16))
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.note(_CUT_GZIP)
                return
            if not chunk:
                return
            left = None if left is None else left - len(chunk)
            yield chunk

    def _open(self) -> _Readable:
        return gzip.open(self.path, "rb") if self._is_gzip else self.path.open("rb")

    def _starts_with(self, magic: bytes) -> bool:
        try:
            with self.path.open("rb") as handle:
                return handle.read(len(magic)) == magic
        except IsADirectoryError:
            raise UnreadableLog("it is a folder: name the files in it") from None
        except OSError as error:
            raise UnreadableLog(error.strerror or str(error)) from None


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
