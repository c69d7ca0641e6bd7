"""Who signed what: forged, altered and foreign envelopes do not open."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.schemas import InvalidRecord, Key, KeyFileError, Keyring
from holter.schemas.signed import open_unverified, read_key_file
from tests.schemas import examples

ISSUER = Key("issuer-1", "issuer", b"i" * 32)
PERSON = Key("person-1", "person", b"p" * 32)
KEYRING = Keyring(keys={"issuer-1": ISSUER, "person-1": PERSON})


def reason(envelope: bytes, keyring: Keyring = KEYRING) -> str:
    with pytest.raises(InvalidRecord) as caught:
        keyring.open(envelope, "issuer")
    return caught.value.reason


def test_a_signed_body_opens_unchanged() -> None:
    assert KEYRING.open(ISSUER.sign(b"body"), "issuer") == b"body"


def test_released_envelopes_open() -> None:
    keyring = Keyring(keys={"issuer-1": examples.KEY})
    body = keyring.open(examples.SIGNED.read_bytes(), "issuer")
    assert body == examples.path("health").read_bytes()


def test_other_keys_and_roles_are_refused() -> None:
    assert reason(PERSON.sign(b"body")) == "wrong_role"
    assert reason(Key("issuer-1", "issuer", b"x" * 32).sign(b"body")) == "bad_signature"
    assert reason(Key("issuer-9", "issuer", b"i" * 32).sign(b"body")) == "unknown_key_id"


@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_an_altered_envelope_never_opens_to_another_body(position: int, flip: int) -> None:
    envelope = bytearray(ISSUER.sign(b"the body of an action"))
    envelope[position % len(envelope)] ^= flip
    with contextlib.suppress(InvalidRecord):
        assert KEYRING.open(bytes(envelope), "issuer") == b"the body of an action"


def test_a_later_envelope_version_is_named() -> None:
    envelope = ISSUER.sign(b"body").replace(b"\xa1v\x01", b"\xa1v\x02")
    with pytest.raises(InvalidRecord, match="version 2"):
        open_unverified(envelope)


def write(path: Path, keys: dict[str, dict[str, str]], mode: int = 0o600) -> Path:
    path.write_text(json.dumps({"version": 1, "keys": keys}))
    path.chmod(mode)
    return path


def entry(role: str, secret: bytes) -> dict[str, str]:
    return {"role": role, "key": secret.hex()}


def test_a_key_that_was_added_is_found_without_a_restart(tmp_path: Path) -> None:
    path = write(tmp_path / "keys.json", {"issuer-1": entry("issuer", b"i" * 32)})
    keyring = Keyring(path)
    later = Key("issuer-2", "issuer", b"j" * 32)
    assert reason(later.sign(b"body"), keyring) == "unknown_key_id"
    write(path, {"issuer-1": entry("issuer", b"i" * 32), "issuer-2": entry("issuer", b"j" * 32)})
    assert keyring.open(later.sign(b"body"), "issuer") == b"body"
    assert keyring.signer("issuer").key_id == "issuer-2"


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "keys.json", {"issuer-1": entry("issuer", b"i" * 32)}, mode=0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_key_file(path)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version": 2, "keys": {}}', '{"version": 1, "keys": {"a": {"role": "x"}}}']
)
def test_a_file_that_is_no_key_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="is no key file"):
        read_key_file(path)


def test_a_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be read"):
        read_key_file(tmp_path / "absent.json")


def test_secrets_are_not_shown() -> None:
    assert "iii" not in repr(ISSUER)
    with pytest.raises(KeyFileError, match="no key with role 'person'"):
        Keyring(keys={"issuer-1": ISSUER}).signer("person")
