"""The key file of a local stack: one key that ``watch`` signs with, one for people."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from holter.infra.state import write_private

_KEY_BYTES = 32


def ensure_key_file(path: Path) -> bool:
    """Makes a key file unless there is one; True when it was made. An existing file is never touched."""
    if path.exists():
        return False
    keys = {f"{role}-1": {"role": role, "key": secrets.token_hex(_KEY_BYTES)} for role in ("issuer", "person")}
    write_private(path, msgspec.json.format(msgspec.json.encode({"version": 1, "keys": keys}), indent=2) + b"\n")
    return True
