"""What reaches the latch over the bus: signatures, roles, holds and health."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holter.producers.control import Control, ControlSource
from holter.producers.latch import Answer, Permissions
from holter.producers.notices import Notices
from holter.schemas import Key, encode
from holter.schemas.control import Action, LrFactor
from holter.schemas.topics import CONTROL, HOLDS
from tests.producers.watch import ISSUER, KEYRING, PERSON, FakeWatch, await_, now_ms

ATTEMPT = 5
PERMISSIONS = Permissions(frozenset({"lr_factor"}), frozenset({"lr_factor"}))


class Listening:
    def __init__(self, watch: FakeWatch) -> None:
        self.watch = watch
        self.answers: list[Answer] = []
        source = ControlSource(lambda: watch.bus, KEYRING, "test")
        self.control = Control(
            watch.project, watch.run, ATTEMPT, PERMISSIONS, source, self.answers.append, Notices(), now_ms
        )

    def start(self) -> None:
        self.control.start()
        await_(lambda: self.control.is_armed, "holds are read")

    def action(self, **changes: object) -> Action:
        return self.watch.action([LrFactor(0.5)], attempt=ATTEMPT, **changes)

    def send(self, action: Action, key: Key = ISSUER) -> None:
        self.watch.send(CONTROL, key.sign(encode(action)))


@pytest.fixture
def listening() -> Iterator[Listening]:
    made = Listening(FakeWatch())
    yield made
    made.control.stop()


def test_a_signed_action_is_latched(listening: Listening) -> None:
    listening.start()
    listening.send(listening.action())
    assert listening.control.latched.wait(5)
    taken = listening.control.take(1)
    assert taken is not None
    assert not listening.control.is_pending


def test_an_action_from_before_the_start_is_read(listening: Listening) -> None:
    listening.send(listening.action())
    listening.start()
    assert listening.control.latched.wait(5)


@pytest.mark.parametrize(
    ("key", "what"),
    [(PERSON, "a person's key"), (Key("issuer-1", "issuer", b"x" * 32), "a forged key"),
     (Key("nobody", "issuer", b"i" * 32), "an unknown key")],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_other_signatures_do_not_pass(listening: Listening, key: Key, what: str) -> None:
    listening.start()
    listening.send(listening.action(), key)
    await_(lambda: listening.control.num_invalid == 1, what)
    assert not listening.control.is_pending


def test_altered_bytes_never_pass(listening: Listening) -> None:
    listening.start()
    envelope = ISSUER.sign(encode(listening.action()))
    for at in range(0, len(envelope), 7):
        altered = envelope[:at] + bytes([envelope[at] ^ 1]) + envelope[at + 1 :]
        listening.watch.send(CONTROL, altered)
    listening.send(listening.action())
    await_(lambda: listening.control.is_pending, "the good one")
    assert listening.control.num_invalid == len(range(0, len(envelope), 7))
    taken = listening.control.take(1)
    assert taken is not None
    assert taken.action.ordinal == 2


def test_another_runs_key_is_not_even_verified(listening: Listening) -> None:
    listening.start()
    action = listening.action()
    listening.watch.bus.append(CONTROL, b"tests/other", ISSUER.sign(encode(action)))
    listening.send(listening.action())
    await_(lambda: listening.control.is_pending, "the good one")
    assert listening.control.num_invalid == 0


def test_a_hold_of_before_the_start_refuses(listening: Listening) -> None:
    listening.watch.hold()
    listening.send(listening.action())
    listening.start()
    await_(lambda: listening.control.is_pending, "latched")
    assert listening.control.take(1) is None
    assert listening.answers[0].reason == "the run is on hold"


def test_a_release_lets_the_next_action_through(listening: Listening) -> None:
    listening.watch.hold()
    listening.watch.hold(False)
    listening.start()
    listening.send(listening.action())
    await_(lambda: listening.control.is_pending, "latched")
    assert listening.control.take(1) is not None


def test_a_hold_signed_by_the_issuer_does_not_count(listening: Listening) -> None:
    listening.start()
    held = encode(listening.action())
    listening.watch.send(HOLDS, ISSUER.sign(held))
    await_(lambda: listening.control.num_invalid == 1, "refused")


def test_nothing_is_handed_out_before_holds_are_read(listening: Listening) -> None:
    listening.control._control.start()
    listening.send(listening.action())
    await_(lambda: listening.control.is_pending, "latched")
    assert listening.control.take(1) is None
    assert listening.control.is_pending
    listening.control._holds.start()
    await_(lambda: listening.control.is_armed, "armed")
    assert listening.control.take(1) is not None
