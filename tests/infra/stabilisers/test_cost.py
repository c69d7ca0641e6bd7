"""What a stabiliser adds to a step: from processor time to ratios."""

from __future__ import annotations

import pytest

from holter.infra.stabilisers.cost import QUICK_COST, TARGETS, Timed, measure, update_ratios, whole_ratios

pytestmark = pytest.mark.torch


def test_a_step_is_held_against_the_plain_ones_of_its_own_round() -> None:
    fast = {"plain": [Timed(2.0, 0.5)], "agc": [Timed(2.2, 0.6)]}
    slow = {"plain": [Timed(8.0, 2.0)], "agc": [Timed(8.8, 2.4)]}
    assert whole_ratios([fast, slow, {"plain": [Timed(1.0, 1.0)]}], "agc") == pytest.approx([1.1, 1.1])
    assert update_ratios([fast, slow], "agc") == pytest.approx([1.05, 1.05])


@pytest.mark.services
def test_every_stabiliser_with_a_target_is_measured() -> None:
    told: list[str] = []
    figures = {figure.name: figure for figure in measure(QUICK_COST, told.append)}
    assert set(figures) == {f"step_cost_ratio_{arm}" for arm in TARGETS}
    assert all(figure.value > 0 for figure in figures.values())
    assert told[-1] == "round 2 of 2"
