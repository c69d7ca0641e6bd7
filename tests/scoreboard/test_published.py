"""Holter on the two published spikes: the one healed by itself, the other did not."""

from __future__ import annotations

import pytest

from holter.pipeline.replay.judge import Event, judge
from tests.scoreboard.corpus.published import bigscience_104b, bloom_176b

SEEDS = (176, 1, 2)
"""Of the pre-history, which is not published."""


def last_before(events: list[Event], step: int) -> float | None:
    """The probability as it stood at a step."""
    return next((event.p_recover for event in reversed(events) if event.step <= step), None)


@pytest.mark.parametrize("seed", SEEDS)
def test_bloom_176b_is_announced_by_its_gradient_and_left_alone(seed: int) -> None:
    events = list(judge(bloom_176b(seed).records))
    assert events[0].step in (31215, 31216)
    assert events[0].kind == "grad_explosion"
    assert {event.action for event in events} <= {"monitor", "none"}
    probability = last_before(events, 31250)
    assert probability is not None
    assert probability >= 0.7


@pytest.mark.parametrize("seed", SEEDS)
def test_the_104b_run_is_given_up(seed: int) -> None:
    events = list(judge(bigscience_104b(seed).records))
    assert events[0].step == 7010
    probability = last_before(events, 7220)
    assert probability is not None
    assert probability < 0.3
