"""Bodies that clients compress, and answers as they ask for them.

A client may send several frames in one body, one a block: all of them are read, since stopping after the first
loses rows without an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Protocol

import lz4.frame
from backports import zstd

from holter.pipeline.store.errors import QueryRefused

CANNOT_DECOMPRESS = 271
UNKNOWN_COMPRESSION_METHOD = 89
TOO_LARGE = 307
ENCODINGS = ("zstd", "lz4", "gzip", "deflate")
"""What answers can be compressed with."""


class Compressor(Protocol):
    """One stream of compressed bytes; ``flush`` ends it."""

    def compress(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


def decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """The plain bytes of a body.

    Raises:
        QueryRefused: the encoding is unknown, the body is damaged or cut, or it holds more than ``max_bytes``.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in _OPENERS:
        raise QueryRefused(f"Content-Encoding {encoding!r} is not known here", UNKNOWN_COMPRESSION_METHOD)
    try:
        return _all_frames(body, _OPENERS[encoding], max_bytes)
    except (RuntimeError, ValueError, EOFError, zlib.error, zstd.ZstdError) as error:
        raise QueryRefused(f"the {encoding} body cannot be read: {error}", CANNOT_DECOMPRESS) from None


def compressor(encoding: str) -> Compressor:
    """A stream in one of :data:`ENCODINGS`."""
    if encoding == "lz4":
        return _Lz4Stream()
    if encoding == "zstd":
        return zstd.ZstdCompressor(level=1)
    return zlib.compressobj(level=1, wbits=31 if encoding == "gzip" else 15)


def choose_encoding(accepted: str) -> str | None:
    """The first encoding of an Accept-Encoding header that is known here.

    >>> choose_encoding("br, lz4;q=1.0, gzip"), choose_encoding("identity")
    ('lz4', None)
    """
    for part in accepted.split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() in ENCODINGS and quality.replace(" ", "") != "q=0":
            return name.strip().lower()
    return None


class _Lz4Stream:
    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._header = self._frame.begin()

    def compress(self, data: bytes) -> bytes:
        header, self._header = self._header, b""
        return bytes(header + self._frame.compress(data))

    def flush(self) -> bytes:
        header, self._header = self._header, b""
        return bytes(header + self._frame.flush())


def _all_frames(body: bytes, opener: Callable[[], Any], max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while body:
        stream = opener()
        parts.append(stream.decompress(body))
        if not stream.eof:
            raise EOFError("it ends in the middle")
        size += len(parts[-1])
        if size > max_bytes:
            raise QueryRefused(f"the body holds more than {max_bytes} bytes: send smaller batches", TOO_LARGE)
        body = stream.unused_data or b""
    return b"".join(parts)


_OPENERS: dict[str, Callable[[], Any]] = {
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": zstd.ZstdDecompressor,
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "deflate": lambda: zlib.decompressobj(wbits=15),
}
