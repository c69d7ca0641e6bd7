"""The report's formula from made-up arms."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from holter.infra.rescue.formula import measure
from holter.infra.rescue.score import cases
from tests.infra.rescue.results import CURVE, result

pytestmark = pytest.mark.torch


def test_its_three_terms() -> None:
    arms = [
        result("healthy", "shadow", 2.0),
        result("gradient-burst", "shadow", 2.5),
        result("gradient-burst", "clipped", 2.01),
        result("gradient-burst", "rollback-only", 2.05, steps_lost=30),
        result("gradient-burst", "expected-cost", 2.05, is_treated=True),
    ]
    said = measure(cases(arms, lambda twin: CURVE))
    assert (said.num_spikes, said.num_spikes_prevented) == (1, 1)
    assert said.steps_saved == pytest.approx(30)
    assert said.checkpoint_overhead == pytest.approx(0.002 / (20 * 0.01))


def test_what_was_not_run_is_not_known() -> None:
    said = measure(cases([result("healthy", "shadow", 2.0)], lambda twin: CURVE))
    assert said.num_spikes_prevented is None
    assert said.steps_saved is None
