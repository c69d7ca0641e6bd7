"""The acceptance figures from made-up arms."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from msgspec.structs import replace

from holter.infra.acceptance.from_matrix import accuracy, false_alarms, from_matrix
from holter.infra.rescue.score import cases
from tests.infra.rescue.results import CURVE, result

pytestmark = pytest.mark.torch

UNHURT = replace(result("healthy", "shadow", 2.0), num_incidents=0, first_signal=None)
HURT = result("bit-flip", "shadow", None)


def test_accuracy_counts_hurt_runs_seen_in_time_and_unhurt_ones_left_in_peace() -> None:
    late = replace(HURT, first_signal=100)
    assert accuracy([HURT, UNHURT]).value == 100.0
    assert accuracy([late, UNHURT]).value == 50.0
    assert accuracy([HURT, replace(UNHURT, num_incidents=1)]).value == 50.0


def test_a_false_alarm_is_an_incident_where_nothing_is_wrong() -> None:
    early = replace(HURT, num_incidents=2, num_incidents_before=1)
    assert false_alarms([HURT, UNHURT]).value == 0.0
    assert false_alarms([HURT, early, replace(UNHURT, num_incidents=1)]).value == pytest.approx(50.0)


def test_recovery_and_rpo_are_those_of_the_default_policy() -> None:
    treated = result("bit-flip", "expected-cost", 2.01, is_treated=True)
    arms = [UNHURT, result("healthy", "expected-cost", 2.0), HURT, treated]
    figures = {figure.name: figure for figure in from_matrix(cases(arms, lambda twin: CURVE), 0.25)}
    assert figures["recovery_success"].value == 100.0
    assert figures["rpo_steps"].value == 20.0
    assert all(figure.met for figure in figures.values())
