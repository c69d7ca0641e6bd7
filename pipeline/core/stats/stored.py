"""The stored form of a statistic: one byte that names its version, then its fields, little-endian."""

from __future__ import annotations

import struct
from typing import Any

from holter.pipeline.core.operator import StateVersionError


class StoredForm:
    """The layout of one version.

    Args:
        name: of the statistic, for messages.
        layout: of :mod:`struct`, without byte order.
    """

    __slots__ = ("_name", "_struct", "_version")

    def __init__(self, name: str, version: int, layout: str) -> None:
        self._name = name
        self._version = version
        self._struct = struct.Struct("<B" + layout)

    @property
    def num_bytes(self) -> int:
        return self._struct.size

    def pack(self, *fields: float) -> bytes:
        return self._struct.pack(self._version, *fields)

    def unpack(self, raw: bytes) -> tuple[Any, ...]:
        """The fields; bytes that follow them are for :meth:`unpack_more`.

        Raises:
            StateVersionError: the bytes are of another version, or too few.
        """
        if not raw or raw[0] != self._version:
            found = f"version {raw[0]}" if raw else "nothing"
            raise StateVersionError(f"{self._name}: {found} is stored, this release reads version {self._version}")
        return self._unpacked(self._struct, raw, 0)[1:]

    def unpack_more(self, raw: bytes, layout: str, at: int | None = None) -> tuple[Any, ...]:
        """Fields of a layout that follow from ``at`` on, by default right behind those of :meth:`unpack`.

        Raises:
            StateVersionError: the bytes are too few.
        """
        return self._unpacked(struct.Struct("<" + layout), raw, self.num_bytes if at is None else at)

    def _unpacked(self, layout: struct.Struct, raw: bytes, at: int) -> tuple[Any, ...]:
        if at + layout.size > len(raw):
            raise StateVersionError(f"{self._name}: {len(raw)} bytes are stored, version {self._version} has more")
        return layout.unpack_from(raw, at)
