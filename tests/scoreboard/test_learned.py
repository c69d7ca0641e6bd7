"""The fitted detector sees only the past, and is never fitted on the family it is scored on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.board import joined
from tests.scoreboard.learned import detector
from tests.scoreboard.learned.detector import Learned, left_out_events
from tests.scoreboard.learned.features import NAMES, features_of
from tests.scoreboard.learned.logistic import fit
from tests.scoreboard.rule import Event
from tests.scoreboard.series import records_of
from tests.scoreboard.truth import Label, LabelledRun

SIZE, AT = 300, 200


def hurt_run(family: str, seed: int) -> LabelledRun:
    random = np.random.default_rng(seed)
    loss = 2.0 + 0.02 * random.standard_normal(SIZE)
    loss[AT : AT + 12] += 1.0
    return LabelledRun(f"{family}/{seed}", family, records_of({LOSS: loss}), [Label(AT, AT + 11, "loss_spike", "a")])


def test_features_of_a_row_are_of_it_and_earlier_ones() -> None:
    records = hurt_run("f", 1).records
    rows = features_of(records)
    assert rows.shape == (SIZE, len(NAMES))
    assert np.array_equal(rows[:150], features_of(records[:150]))
    assert np.isfinite(rows).all()


def test_features_do_not_depend_on_the_scale_of_the_loss() -> None:
    records = hurt_run("f", 1).records
    larger = records_of({LOSS: [1_000.0 * record.values[LOSS] for record in records]})
    assert np.allclose(features_of(records), features_of(larger), atol=1e-6)


def test_features_survive_missing_values_and_such_that_are_no_numbers() -> None:
    losses = [2.0, math.nan, 2.1, math.inf] * 20
    rows = features_of(records_of({LOSS: losses, GRAD_NORM: [0.0, 1.0] * 40}))
    assert np.isfinite(rows).all()
    assert rows[1, NAMES.index("not finite")] == 1.0


def test_logistic_regression_finds_what_tells_classes_apart() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((500, 3))
    truth = (rows[:, 1] > 0.5).astype(np.float64)
    model = fit(rows, truth, np.ones(500))
    assert abs(model.weights[1]) > 5.0 * max(abs(model.weights[0]), abs(model.weights[2]))
    assert ((model.logits(rows) > 0.0) == truth).mean() > 0.95


def test_a_detector_fitted_on_other_families_finds_a_plain_spike() -> None:
    runs = [hurt_run(family, seed) for seed, family in enumerate("abcd")]
    (events,) = left_out_events({"corpus": runs}).values()
    assert all(AT - 5 <= found[0].row <= AT + 5 for found in events)


def test_the_family_that_is_scored_is_not_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[set[str]] = []

    def remember(prepared: list[tuple[str, detector.Prepared]]) -> Learned:
        fitted.append({item.run.family for _, item in prepared})
        model = fit(np.zeros((2, len(NAMES))), np.array([0.0, 1.0]), np.ones(2))
        return Learned(model, threshold=math.inf)

    monkeypatch.setattr(detector, "fit_detector", remember)
    left_out_events({"corpus": [hurt_run(family, seed) for seed, family in enumerate("abc")]})
    assert sorted(map(sorted, fitted)) == [["a", "b"], ["a", "c"], ["b", "c"]]


def test_as_a_further_signal_it_speaks_only_where_holter_was_silent() -> None:
    first = [Event(100, "loss_spike")]
    assert joined(first, [Event(110, "x"), Event(200, "x")]) == [Event(100, "loss_spike"), Event(200, "x")]
