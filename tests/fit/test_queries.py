"""The queries of the fit, asked of a real store."""

from __future__ import annotations

from typing import Any

import pytest

from holter.pipeline.cli.fit import asker
from holter.pipeline.fit.from_store import gather_from_store
from holter.pipeline.fit.priors import gather_priors
from holter.schemas.bounds import EffectName, IncidentState
from holter.schemas.commands import Prior
from holter.schemas.control import Action, MomentumReset, Rollback, SkipRange
from holter.schemas.decisions import Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import LOSS, Ack
from holter.schemas.topics import CONTROL, DECISIONS, SIGNALS, TELEMETRY
from tests.loader.memory_log import START_MS, MemoryLog
from tests.loader.test_load_into_store import load
from tests.store.embedded import EmbeddedStore

pytestmark = pytest.mark.services
WHO = ("p", "fit", START_MS)


def test_closed_incidents_and_what_helped(store: EmbeddedStore) -> None:
    log = MemoryLog()
    incident(log, "healed", "recovered")
    incident(log, "lost", "lost")
    incident(log, "back", "rolled_back")
    incident(log, "open", "spike", closes=False)
    incident(log, "treated", "recovered")
    act(log, "treated", 1, "applied", ["rollback", "skip_range"], "recovered")
    incident(log, "refused", "recovered_higher")
    act(log, "refused", 2, "refused", ["momentum_reset"], None)
    load(store, log)
    ask = asker(store.dsn)
    gathered = gather_from_store(ask, max_records=60)
    assert sorted((it.healed, len(it.records)) for it in gathered.incidents) == [(False, 3), (True, 3), (True, 3)]
    assert {it.group for it in gathered.incidents} == {"p/fit"}
    assert dict(gathered.incidents[0].records[1]) == {"num_records": 2.0, "given_back": 0.25}
    assert gathered.left_out == {"an action was applied": 1, "it ended as rolled_back": 1}
    assert gather_priors(ask) == {
        "loss_spike/monitor": Prior(3, 2),
        "loss_spike/rollback": Prior(1, 1),
        "loss_spike/skip_range": Prior(1, 1),
    }


def incident(log: MemoryLog, name: str, end: IncidentState, closes: bool = True) -> None:
    for number in range(1, 4):
        features = {"num_records": float(number), "given_back": 0.25}
        log.append(SIGNALS, said(name, number, "spike", "open" if number == 1 else "update", features=features))
    if closes:
        log.append(SIGNALS, said(name, 4, end, "close", features={"num_records": 4.0, "given_back": 1.0}))


def said(name: str, step: int, state: IncidentState, phase: Any, **fields: Any) -> Signal:
    return Signal(f"{name}-{step}", *WHO, 0, step, step, START_MS + step, "loss_spike", "warning", phase, name, state,
                  1, LOSS, 4.0, 2.0, 9.0, 6.0, 4.0, step, **fields)  # fmt: skip


def act(log: MemoryLog, name: str, ordinal: int, status: Any, effects: list[EffectName], result: Any) -> None:
    made = {"rollback": Rollback("step-0", 0), "skip_range": SkipRange(1), "momentum_reset": MomentumReset()}
    action = f"act-{name}"
    log.append(
        CONTROL,
        Action(action, *WHO, ordinal, name, [made[effect] for effect in effects], START_MS, START_MS + 9, 3, 9, 3, 1),
    )
    log.append(TELEMETRY, Ack(*WHO, 0, "s", ordinal, 4, START_MS + 4, action, START_MS, ordinal, status))
    if result is not None:
        log.append(
            DECISIONS, Outcome(f"o-{name}", *WHO, 0, 60, 2, START_MS + 60, action, name, result, 4.0, 2.0, 50, 2)
        )
