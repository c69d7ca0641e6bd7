"""The user and password of the embedded store, in a file that only its owner can read."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from holter.pipeline.store.errors import StoreError

DEFAULT_USER = "holter"


@dataclass(frozen=True)
class Credentials:
    user: str
    password: str = field(repr=False)

    def match(self, user: str, password: str) -> bool:
        """Compared in constant time."""
        is_user = hmac.compare_digest(user.encode(), self.user.encode())
        return hmac.compare_digest(password.encode(), self.password.encode()) and is_user


def read_or_create(path: Path) -> Credentials:
    """The credentials of a file with one line ``user:password``; a missing file is made with a random password.

    Raises:
        StoreError: the file can be read by others, or is no such line.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise StoreError(f"the credentials file {path} cannot be made: {error.strerror}") from None
    credentials = Credentials(DEFAULT_USER, secrets.token_urlsafe(24))
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{credentials.user}:{credentials.password}\n")
    return credentials


def _read(path: Path) -> Credentials:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the credentials file {path} cannot be read: {error}") from None
    if mode & 0o077:
        raise StoreError(f"{path} can be read by others (mode {mode:o}): chmod 600 {path}")
    user, _, password = text.strip().partition(":")
    if not user or not password or "\n" in password:
        raise StoreError(f"{path} must hold one line user:password")
    return Credentials(user, password)
