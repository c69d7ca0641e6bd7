"""What a stabiliser adds to a step: from processor time to ratios."""

from __future__ import annotations

import pytest

from holter.infra.stabilisers.cost import QUICK_COST, TARGETS, measure, ratios

pytestmark = pytest.mark.torch


def test_a_rare_restoration_counts_by_its_share_of_the_steps() -> None:
    assert ratios("msign", [3.0, 3.0], [{"plain": 1.0}, {"plain": 1.0, "msign": 5.0}]) == pytest.approx([1.01])


@pytest.mark.services
def test_every_stabiliser_with_a_target_is_measured() -> None:
    told: list[str] = []
    figures = {figure.name: figure for figure in measure(QUICK_COST, told.append)}
    assert set(figures) == {f"step_cost_ratio_{arm}" for arm in TARGETS}
    assert all(figure.value > 0 for figure in figures.values())
    assert told[-1] == "round 2 of 2"
