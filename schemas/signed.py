"""Signed records: HMAC-SHA256 over the raw bytes of the body, by a key with a role.

The key file is JSON, ``{"version": 1, "keys": {"issuer-1": {"role": "issuer", "key": "<hex>"}}}``, readable by its
owner only. A file may hold several keys of a role; the last one signs. To change a key without a gap:

1. verifiers first: append the new key to the trainers' files (an issuer's) or to that of ``watch`` and the trainers (a
   person's); nothing has to be started again;
2. then the signer: append it to the signer's file; ``watch`` signs with it from its next start, people at once;
3. then retire: take the old key out of all files; from then on what it signs is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from holter.schemas.bounds import MAX_RECORD_BYTES
from holter.schemas.errors import InvalidRecord

Role = Literal["issuer", "person"]
KEYS_FILE_VARIABLE = "HOLTER_KEYS_FILE"


class KeyFileError(Exception):
    """The key file cannot be used; the message says what to do."""


class Signed(Struct, frozen=True):
    v: int
    key_id: Annotated[str, Meta(min_length=1, max_length=64)]
    body: Annotated[bytes, Meta(max_length=MAX_RECORD_BYTES)]
    mac: Annotated[bytes, Meta(min_length=32, max_length=32)]


@dataclass(frozen=True)
class Key:
    key_id: str
    role: Role
    secret: bytes = field(repr=False)

    def sign(self, body: bytes) -> bytes:
        """The envelope's bytes."""
        return _ENCODER.encode(Signed(1, self.key_id, body, self._mac(body)))

    def verifies(self, signed: Signed) -> bool:
        return hmac.compare_digest(self._mac(signed.body), signed.mac)

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self.secret, body, hashlib.sha256)


class _StoredKey(Struct, forbid_unknown_fields=True):
    role: Role
    key: Annotated[str, Meta(min_length=32, max_length=256)]


class _KeyFile(Struct):
    version: Literal[1]
    keys: dict[Annotated[str, Meta(min_length=1, max_length=64)], _StoredKey]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Signed)


class Keyring:
    """The keys of one file; read when built and again when it has changed, so that a rotation needs no restart."""

    def __init__(self, path: Path | None = None, keys: dict[str, Key] | None = None) -> None:
        self._path = path
        self._keys = dict(keys or {})
        self._changed_ns = 0
        if path is not None:
            self._changed_ns = _changed_ns(path)
            self._keys = read_key_file(path)

    @classmethod
    def from_environment(cls, environ: dict[str, str] | os._Environ[str]) -> Keyring | None:
        """The keyring that ``HOLTER_KEYS_FILE`` names, or None where it names none."""
        path = environ.get(KEYS_FILE_VARIABLE)
        return cls(Path(path)) if path else None

    def signer(self, role: Role) -> Key:
        """The last key of a role in file order: rotation appends the new key once every verifier has it.

        Raises:
            KeyFileError: there is none.
        """
        for key in reversed(list(self._keys.values())):
            if key.role == role:
                return key
        raise KeyFileError(f"no key with role {role!r} in {self._path or 'the keyring'}")

    def open(self, envelope: bytes, role: Role) -> bytes:
        """The body of a signed record whose signature holds and whose key has the role.

        Raises:
            InvalidRecord: it is no envelope, the key is unknown or has another role, or the signature is wrong.
        """
        signed = open_unverified(envelope)
        key = self._find(signed.key_id)
        if key is None:
            raise InvalidRecord("unknown_key_id", f"no key {signed.key_id!r}")
        if key.role != role:
            raise InvalidRecord("wrong_role", f"key {signed.key_id!r} is of role {key.role!r}, not {role!r}")
        if not key.verifies(signed):
            raise InvalidRecord("bad_signature", f"the signature by key {signed.key_id!r} does not fit the body")
        return signed.body

    def _find(self, key_id: str) -> Key | None:
        if self._path is not None:
            self._follow(self._path)
        return self._keys.get(key_id)

    def _follow(self, path: Path) -> None:
        """A file that cannot be read at present changes nothing."""
        changed_ns = _changed_ns(path)
        if changed_ns == self._changed_ns:
            return
        try:
            self._keys = read_key_file(path)
        except KeyFileError:
            return
        self._changed_ns = changed_ns


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def open_unverified(envelope: bytes) -> Signed:
    """The envelope without a look at its signature, for readers that only store it.

    Raises:
        InvalidRecord: it is no envelope.
    """
    try:
        signed = _DECODER.decode(envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord("malformed", f"no signed envelope: {error}") from None
    if signed.v != 1:
        raise InvalidRecord("unknown_version", f"envelope version {signed.v}")
    return signed


def read_key_file(path: Path) -> dict[str, Key]:
    """The keys of a file by id, in file order.

    Raises:
        KeyFileError: it is missing, readable by others, or not a key file.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise KeyFileError(f"{path} can be read by others (mode {mode:o}): chmod 600 {path}")
        stored = msgspec.json.decode(path.read_bytes(), type=_KeyFile)
        return {key_id: Key(key_id, entry.role, bytes.fromhex(entry.key)) for key_id, entry in stored.keys.items()}
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise KeyFileError(f"{path} is no key file: {error}") from None
