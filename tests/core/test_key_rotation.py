"""A key is changed while a run is watched: verifiers first, then the signer, then the old one is retired."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holter.pipeline.core.run_operator import watch
from holter.schemas import InvalidRecord, Key, Keyring, encode, topics
from holter.schemas.commands import Act
from holter.schemas.control import MomentumReset
from tests.core.test_run_operator import ISSUER, PERSON, Loop, healthy_run
from tests.telemetry import START_MS

NEXT_ISSUER = Key("issuer-2", "issuer", b"j" * 32)
NEXT_PERSON = Key("person-2", "person", b"q" * 32)


class KeyFile:
    def __init__(self, path: Path, *keys: Key) -> None:
        self.path = path
        self._num_writes = 0
        self.hold(*keys)

    def hold(self, *keys: Key) -> None:
        stored = {key.key_id: {"role": key.role, "key": key.secret.hex()} for key in keys}
        self.path.write_text(json.dumps({"version": 1, "keys": stored}))
        self.path.chmod(0o600)
        self._num_writes += 1
        os.utime(self.path, (self._num_writes, self._num_writes))


def restart(loop: Loop, keyring: Keyring) -> None:
    loop.deployment = watch(keyring.signer("issuer"), keyring, issuer_epoch=7)
    loop.restart()


def order(loop: Loop, key: Key, ts: int) -> bytes:
    """A person orders a reset; returns the last envelope on the control topic."""
    act = Act("gpt", "night", [MomentumReset()], "ada", START_MS + ts)
    loop.send(key.sign(encode(act)), topics.COMMANDS)
    return loop.bus.log(topics.CONTROL)[-1].value or b""


def test_an_issuers_key_is_changed_without_a_gap(tmp_path: Path) -> None:
    at_watch = KeyFile(tmp_path / "watch.json", ISSUER, PERSON)
    at_trainer = KeyFile(tmp_path / "trainer.json", ISSUER, PERSON)
    trainer = Keyring(at_trainer.path)
    loop = healthy_run()
    restart(loop, Keyring(at_watch.path))
    assert trainer.open(order(loop, PERSON, 1), "issuer")

    at_trainer.hold(ISSUER, PERSON, NEXT_ISSUER)
    assert trainer.open(order(loop, PERSON, 2), "issuer")
    at_watch.hold(ISSUER, PERSON, NEXT_ISSUER)
    restart(loop, Keyring(at_watch.path))
    assert trainer.open(order(loop, PERSON, 3), "issuer")
    at_trainer.hold(PERSON, NEXT_ISSUER)
    assert trainer.open(order(loop, PERSON, 4), "issuer")
    with pytest.raises(InvalidRecord, match="no key 'issuer-1'"):
        trainer.open(ISSUER.sign(b"forged with the retired key"), "issuer")


def test_a_persons_key_is_changed_without_a_restart_of_watch(tmp_path: Path) -> None:
    at_watch = KeyFile(tmp_path / "watch.json", ISSUER, PERSON)
    loop = healthy_run()
    restart(loop, Keyring(at_watch.path))
    at_watch.hold(ISSUER, PERSON, NEXT_PERSON)
    order(loop, NEXT_PERSON, 1)
    order(loop, PERSON, 2)
    at_watch.hold(ISSUER, NEXT_PERSON)
    order(loop, PERSON, 3)
    assert [decision.answer for decision in loop.decisions()] == ["done", "done"]
    assert [letter.reason for letter in loop.decoded(topics.DLQ)] == ["unknown_key_id"]  # type: ignore[attr-defined]


def test_a_file_that_cannot_be_read_for_a_while_takes_no_key_away(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json", ISSUER)
    keyring = Keyring(file.path)
    file.path.unlink()
    assert keyring.open(ISSUER.sign(b"body"), "issuer") == b"body"
    file.path.write_text("{")
    assert keyring.open(ISSUER.sign(b"body"), "issuer") == b"body"
