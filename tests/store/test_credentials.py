from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holter.pipeline.store.credentials import Credentials, read_or_create
from holter.pipeline.store.errors import StoreError


def test_a_missing_file_is_made_for_its_owner_only_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    made = read_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(made.password) >= 32
    assert read_or_create(path) == made


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    read_or_create(path)
    path.chmod(0o640)
    with pytest.raises(StoreError, match="chmod 600"):
        read_or_create(path)


@pytest.mark.parametrize("text", ["", "user", ":password", "user:\n", "a:b\nc:d\n"])
def test_a_file_without_a_user_and_a_password_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "credentials"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(StoreError, match="user:password"):
        read_or_create(path)


def test_both_must_match_and_neither_is_shown() -> None:
    credentials = Credentials("me", "pässword")
    assert credentials.match("me", "pässword")
    assert not credentials.match("me", "")
    assert not credentials.match("you", "pässword")
    assert "pässword" not in repr(credentials)
