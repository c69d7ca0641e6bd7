"""Nothing passes the gate but what was meant for this run, this attempt and this moment."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holter.producers.latch import ActionGate, Answer, Latched, Permissions
from holter.schemas import InvalidRecord, Key, Keyring, codec, encode
from holter.schemas.control import Action, LrFactor, MomentumReset, Rollback
from holter.schemas.digests import digest

NOW = 1_000_000
ISSUER = Key("issuer-1", "issuer", b"i" * 32)
PERSON = Key("person-1", "person", b"p" * 32)
KEYRING = Keyring(keys={key.key_id: key for key in (ISSUER, PERSON)})
PERMISSIONS = Permissions(
    frozenset({"lr_factor", "momentum_reset", "rollback"}),
    frozenset({"lr_factor", "momentum_reset"}),
    {"momentum_reset": "approve"},
)


def action(**changes: Any) -> Action:
    fields: dict[str, Any] = {
        "id": f"action-{changes.get('ordinal', 1)}", "project": "p", "run": "r", "attempt": 5, "ordinal": 1,
        "incident": "i", "effects": [LrFactor(0.5)], "decided_ts": NOW, "expires_ts": NOW + 100, "first_step": 10,
        "last_step": 20, "seq": 0, "issuer_epoch": 3,
    }  # fmt: skip
    return Action(**{**fields, **changes})


def make_gate() -> ActionGate:
    return ActionGate("p", "r", 5, PERMISSIONS)


def offer(gate: ActionGate, action: Action, now_ms: int = NOW) -> list[Answer]:
    return gate.offer(action, encode(action), now_ms)


def applied(gate: ActionGate, action: Action) -> Latched:
    assert offer(gate, action) == []
    latched = gate.take(action.first_step, NOW, on_hold=False)
    assert isinstance(latched, Latched)
    gate.record_applied(latched)
    return latched


def test_a_good_action_passes_once() -> None:
    gate = make_gate()
    latched = applied(gate, action())
    assert latched.digest == digest(encode(action()))
    assert gate.take(10, NOW, on_hold=False) is None


def test_it_waits_for_its_first_step() -> None:
    gate = make_gate()
    offer(gate, action())
    assert gate.take(9, NOW, on_hold=False) is None
    assert isinstance(gate.take(10, NOW, on_hold=False), Latched)


@pytest.mark.parametrize("changes", [{"project": "q"}, {"run": "q"}, {"attempt": 4}, {"attempt": 6}])
def test_what_is_addressed_to_others_is_not_answered(changes: dict[str, Any]) -> None:
    gate = make_gate()
    assert offer(gate, action(**changes)) == []
    assert not gate.is_latched


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"expires_ts": NOW - 1}, "expired", "its time was over"),
        ({"effects": [Rollback("c", 1)]}, "refused", "rollback is not in what the user allows"),
        ({"effects": [LrFactor(0.5), MomentumReset()]}, "refused", "autonomy of momentum_reset is approve"),
    ],
)
def test_what_may_not_be_applied_is_answered(changes: dict[str, Any], status: str, reason: str) -> None:
    gate = make_gate()
    (answer,) = offer(gate, action(**changes))
    assert answer.status == status
    assert reason in answer.reason
    assert not gate.is_latched


@pytest.mark.parametrize("authority", ["approval", "person", "policy"])
def test_what_people_let_through_does_not_ask_the_runs_autonomy_but_what_it_allows(authority: Any) -> None:
    gate = make_gate()
    assert offer(gate, action(effects=[MomentumReset()], authority=authority)) == []
    assert gate.is_latched
    (answer,) = offer(make_gate(), action(effects=[Rollback("c", 1)], authority=authority))
    assert "not in what the user allows" in answer.reason


def test_a_repeated_id_is_answered_with_the_digest_of_what_was_applied() -> None:
    gate = make_gate()
    latched = applied(gate, action())
    (answer,) = offer(gate, action(ordinal=2, id="action-1", effects=[LrFactor(0.1)]))
    assert (answer.status, answer.digest) == ("refused", latched.digest)


def test_a_lower_issuer_epoch_is_refused_also_at_the_boundary() -> None:
    gate = make_gate()
    offer(gate, action())
    assert gate.see_epoch(4)
    taken = gate.take(10, NOW, on_hold=False)
    assert isinstance(taken, Answer)
    assert "epoch" in taken.reason
    assert "epoch" in offer(gate, action(ordinal=2))[0].reason


def test_the_boundary_checks_time_step_and_hold_again() -> None:
    for step, now_ms, on_hold, status in ((10, NOW + 101, False, "expired"), (21, NOW, False, "expired"),
                                          (10, NOW, True, "refused")):  # fmt: skip
        gate = make_gate()
        offer(gate, action())
        taken = gate.take(step, now_ms, on_hold)
        assert isinstance(taken, Answer)
        assert taken.status == status


def test_a_higher_ordinal_supersedes_and_the_older_is_answered() -> None:
    gate = make_gate()
    offer(gate, action())
    (answer,) = offer(gate, action(ordinal=2))
    assert (answer.action.ordinal, answer.status) == (1, "refused")
    taken = gate.take(10, NOW, on_hold=False)
    assert isinstance(taken, Latched)
    assert taken.action.ordinal == 2
    assert "ordinal" in offer(gate, action(id="late"))[0].reason


def test_a_new_attempt_forgets_what_was_latched() -> None:
    gate = make_gate()
    offer(gate, action())
    gate.begin_attempt(6)
    assert gate.take(10, NOW, on_hold=False) is None
    assert offer(gate, action()) == []
    assert applied(gate, action(attempt=6))


CHANGES = {
    "project": st.sampled_from(["p", "q"]),
    "run": st.sampled_from(["r", "s"]),
    "attempt": st.integers(3, 7),
    "ordinal": st.integers(1, 6),
    "issuer_epoch": st.integers(1, 4),
    "expires_ts": st.integers(NOW - 50, NOW + 50),
    "first_step": st.integers(0, 20),
    "last_step": st.integers(0, 20),
    "effects": st.lists(
        st.sampled_from([LrFactor(0.5), MomentumReset(), Rollback("c", 1)]), min_size=1, max_size=2, unique_by=type
    ),
}


@given(
    st.lists(
        st.tuples(st.fixed_dictionaries(CHANGES), st.integers(0, 20), st.integers(NOW - 60, NOW + 60)), max_size=30
    )
)
def test_whatever_comes_only_valid_actions_pass(offers: list[tuple[dict[str, Any], int, int]]) -> None:
    gate, last, epoch = make_gate(), 0, 0
    for changes, step, now_ms in offers:
        offered = action(**changes)
        offered = structs.replace(offered, id=f"{offered.ordinal}-{digest(encode(offered))[:8]}")
        if (offered.project, offered.run, offered.attempt) == ("p", "r", 5):
            epoch = max(epoch, offered.issuer_epoch)
        offer(gate, offered, now_ms)
        taken = gate.take(step, now_ms, on_hold=False)
        if isinstance(taken, Latched):
            passed = taken.action
            assert (passed.project, passed.run, passed.attempt) == ("p", "r", 5)
            assert passed.ordinal > last
            assert passed.issuer_epoch == epoch
            assert passed.first_step <= step <= passed.last_step
            assert now_ms <= passed.expires_ts
            assert [type(effect) for effect in passed.effects] == [LrFactor]
            last = passed.ordinal


def forged(number: int) -> tuple[bytes, str]:
    """The ``number``-th way to send what must not be applied: envelope and how it is wrong."""
    draw = random.Random(number)
    kind = ("forged", "altered", "expired", "foreign", "replayed")[number % 5]
    changes: dict[str, Any] = {"ordinal": draw.randint(2, 10**6), "id": f"bad-{number}", "reason": f"{number}"}
    if kind == "expired":
        changes["expires_ts"] = NOW - draw.randint(1, 10**5)
    if kind == "foreign":
        changes |= draw.choice([{"run": f"r{number}"}, {"project": "q"}, {"attempt": draw.choice([1, 4, 6, 10**12])}])
    if kind == "replayed":
        changes = {} if draw.random() < 0.5 else {"reason": f"{number}"}  # the same bytes, or the same id and ordinal
    body = encode(action(**changes))
    signer = ISSUER
    if kind == "forged":
        signer = draw.choice(
            [PERSON, Key("issuer-1", "issuer", draw.randbytes(32)), Key("unknown", "issuer", b"i" * 32)]
        )
    envelope = signer.sign(body)
    if kind == "altered":
        at = draw.randrange(len(envelope))
        envelope = envelope[:at] + bytes([envelope[at] ^ draw.randint(1, 255)]) + envelope[at + 1 :]
    return envelope, kind


def test_of_ten_thousand_bad_actions_none_is_applied() -> None:
    """As the control thread takes them: verified, decoded, offered; and at once asked for at a boundary."""
    gate, outcomes = make_gate(), Counter[str]()
    good = applied(gate, action())
    for number in range(10_000):
        envelope, kind = forged(number)
        try:
            body = KEYRING.open(envelope, "issuer")
            gate.offer(codec.control.decode(body), body, NOW)  # type: ignore[arg-type]
        except InvalidRecord:
            outcomes[f"{kind} unread"] += 1
        else:
            outcomes[f"{kind} refused"] += 1
        assert gate.take(10, NOW, on_hold=False) is None
        assert not gate.is_latched
    assert outcomes["forged unread"] == outcomes["altered unread"] == 2_000
    assert outcomes["expired refused"] == outcomes["foreign refused"] == outcomes["replayed refused"] == 2_000
    later = applied(gate, action(ordinal=10**7, id="good-2"))
    assert later.digest != good.digest
