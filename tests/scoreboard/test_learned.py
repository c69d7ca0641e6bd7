"""The learned rows of the table."""

from __future__ import annotations

import numpy as np
import pytest

from holter.pipeline.core.detect.learned import FEATURES
from holter.pipeline.core.detect.learned_model import SHIPPED
from holter.schemas.telemetry import LOSS
from tests.scoreboard import board, learned
from tests.scoreboard.learned import events_beside, events_of, left_out
from tests.scoreboard.rules.holter import Holter
from tests.scoreboard.series import records_of
from tests.scoreboard.truth import Label, LabelledRun

SIZE, AT = 300, 200


def hurt_run(family: str, seed: int) -> LabelledRun:
    random = np.random.default_rng(seed)
    loss = 2.0 + 0.02 * random.standard_normal(SIZE)
    loss[AT : AT + 12] += 1.0
    return LabelledRun(f"{family}/{seed}", family, records_of({LOSS: loss}), [Label(AT, AT + 11, "loss_spike", "a")])


def test_a_detector_fitted_on_other_families_finds_a_plain_spike() -> None:
    runs = [hurt_run(family, seed) for seed, family in enumerate("abcd")]
    found = list(left_out({"corpus": runs}, Holter()))
    assert sorted(run.family for _, run, _, _ in found) == list("abcd")
    assert all(AT - 5 <= alone[0].row <= AT + 5 for _, _, alone, _ in found)


def test_beside_holter_its_notices_count_as_signals_and_nothing_else_changes() -> None:
    run = hurt_run("a", 1)
    plain = Holter().events(run.records)
    keen = type(SHIPPED)(SHIPPED.bias, SHIPPED.weights, -3.0)
    beside = events_beside(Holter(), keen, run)
    assert [event for event in beside if event.kind != "learned"] == plain
    assert {event.kind for event in beside} == {"learned", *(event.kind for event in plain)}


def test_only_what_is_no_number_is_acted_on() -> None:
    features = np.zeros((100, len(FEATURES)))
    features[10, FEATURES.index("loss score over its record of pairs, second of three")] = 3.0
    features[60, FEATURES.index("not finite")] = 2.0
    assert [(event.row, event.acts) for event in events_of(SHIPPED, features)] == [(10, False), (60, False)]
    features[60, FEATURES.index("not finite")] = 1.0
    features[60, FEATURES.index("few records before")] = 1.0
    assert [(event.row, event.acts) for event in events_of(SHIPPED, features)] == [(10, False), (60, True)]


def test_both_rows_stand_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [hurt_run(family, seed) for seed, family in enumerate("ab")]
    rows = {name: figures for _, name, figures in board.learned_rows({"corpus": runs}, Holter())}
    assert set(rows) == {learned.NAME, learned.BOTH}
    assert rows[learned.BOTH]["recall"] == 1.0
