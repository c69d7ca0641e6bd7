from __future__ import annotations

import stat
from pathlib import Path

from holter.infra.keys import ensure_key_file
from holter.schemas.signed import read_key_file


def test_a_key_of_each_role_is_made_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    assert ensure_key_file(path)
    keys = read_key_file(path)
    assert {key_id: (key.role, len(key.secret)) for key_id, key in keys.items()} == {
        "issuer-1": ("issuer", 32),
        "person-1": ("person", 32),
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    ensure_key_file(path)
    before = path.read_bytes()
    assert not ensure_key_file(path)
    assert path.read_bytes() == before
