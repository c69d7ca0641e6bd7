"""Young's interval, said once and only where it matters."""

from __future__ import annotations

import math

import pytest

from holter.producers.torch.interval_advice import IntervalAdvice, mtbf_seconds, young_interval_seconds

pytestmark = pytest.mark.torch


def advice(every: int, blocked_seconds: float, written_seconds: float = 0.01) -> list[str | None]:
    adviser = IntervalAdvice(every, lambda: 20_000.0)
    return [
        adviser.saved(step, step * 1.0, blocked_seconds, written_seconds) for step in range(every, 9 * every, every)
    ]


def test_it_is_said_once_after_a_few_saves() -> None:
    said = advice(1000, 0.01)  # √(2 · .01 s · 20,000 s) = 20 s, and a step takes 1 s
    assert [line is None for line in said] == [True, True, True, False, True, True, True, True]
    assert "checkpoint_every=20 " in str(said[3])


def test_an_interval_near_the_best_is_left_alone() -> None:
    assert not any(advice(30, 0.01))
    assert any(advice(50, 0.01))


def test_an_interval_is_not_shorter_than_writing_takes() -> None:
    assert "checkpoint_every=300 " in str(advice(50, 0.01, written_seconds=300.0)[3])


def test_what_minimises_the_loss_is_youngs_interval() -> None:
    save, mtbf = 5.0, 4000.0
    best = young_interval_seconds(save, mtbf)

    def lost(interval: float) -> float:
        return save / interval + interval / (2 * mtbf)

    assert lost(best) < min(lost(0.9 * best), lost(1.1 * best))
    assert lost(best) == pytest.approx(math.sqrt(2 * save / mtbf))


def test_own_interruptions_count_more_than_those_of_others() -> None:
    assert mtbf_seconds(8, 5, 3600.0) == pytest.approx(720.0, rel=0.01)
    assert mtbf_seconds(2, 0, 0.0) == pytest.approx(mtbf_seconds(1, 0, 0.0) / 2)
