"""The scorer on cases small enough to count by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scoreboard.episodes import MERGE_ROWS, episode_starts
from tests.scoreboard.rule import Event
from tests.scoreboard.score import score_run, total
from tests.scoreboard.truth import Label, truth_of

SPIKE = Label(100, 120, "loss_spike", "a")
LOST = Label(500, 999, "divergence", "b", recovered=False)
BLIP = Label(300, 300, "benign_blip", "c")


def test_a_signal_just_before_or_soon_after_the_onset_is_a_hit() -> None:
    for row in (95, 100, 120):
        score = score_run(1_000, [SPIKE], [Event(row, "loss_spike")])
        assert (score.num_hit, score.num_late, score.num_false) == (1, 0, 0)
        assert score.delays == [row - 100]


def test_a_signal_outside_is_false_and_the_incident_missed() -> None:
    score = score_run(1_000, [SPIKE], [Event(94, "loss_spike"), Event(200, "loss_spike")])
    assert (score.num_hit, score.num_false, len(score.missed)) == (0, 2, 1)


def test_a_late_signal_counts_for_precision_and_not_for_recall() -> None:
    score = score_run(1_000, [LOST], [Event(521, "divergence")])
    figures = total([score])
    assert (score.num_hit, score.num_late) == (0, 1)
    assert (figures["recall"], figures["precision"], figures["late"]) == (0.0, 1.0, 1)


def test_an_update_is_no_signal_but_its_action_counts() -> None:
    events = [Event(40, "loss_spike", incident="x"), Event(505, "loss_spike", "rollback", incident="x")]
    score = score_run(1_000, [LOST], events)
    assert (score.num_hit, score.num_false, score.num_lost_acted) == (0, 1, 1)
    assert score.action_delays == [5]


def test_close_false_signals_are_one_episode() -> None:
    rows = (200, 210, 220, 221, 300)
    assert score_run(1_000, [], [Event(row, "loss_spike") for row in rows]).num_false == 3


def test_an_episode_that_reaches_into_an_incident_is_not_false() -> None:
    assert score_run(1_000, [SPIKE], [Event(90, "loss_spike"), Event(101, "loss_spike")]).num_false == 0


def test_neutral_rows_excuse_signals_but_not_actions() -> None:
    score = score_run(1_000, [BLIP], [Event(300, "loss_spike", "rollback")])
    assert (score.num_false, score.num_neutral, score.num_false_actions) == (0, 1, 1)


def test_labels_of_low_confidence_are_neutral() -> None:
    truth = truth_of([SPIKE._replace(confidence="low")])
    assert truth.incidents == []
    assert truth.neutral[0].has(95)
    assert truth.neutral[0].has(122)


def test_labels_of_one_incident_make_one_that_is_lost_if_any_is() -> None:
    first, second = SPIKE, Label(110, 400, "nan", "a", recovered=False)
    (incident,) = truth_of([first, second]).incidents
    assert (incident.first_row, incident.last_row, incident.recovered) == (100, 400, False)
    assert incident.kinds == {"loss_spike", "nan"}


def test_restarts_and_infos_are_left_out() -> None:
    score = score_run(1_000, [], [Event(10, "restart", "rollback"), Event(50, "info_resume")])
    assert (score.num_false, score.num_false_actions) == (0, 0)


def test_actions_on_healing_incidents_are_counted() -> None:
    score = score_run(1_000, [SPIKE, LOST], [Event(101, "loss_spike", "lr_factor"), Event(501, "nan", "monitor")])
    figures = total([score])
    assert (figures["selfheal_acted"], figures["lost_acted"]) == (1.0, 0.0)


def test_brier_takes_the_mean_of_what_was_said_early() -> None:
    events = [Event(100, "x", incident="i", p_recover=0.6), Event(110, "x", incident="i", p_recover=0.8),
              Event(121, "x", incident="i", p_recover=0.0)]  # fmt: skip
    assert total([score_run(1_000, [SPIKE], events)])["brier"] == pytest.approx((0.7 - 1.0) ** 2)


def test_an_incident_seen_without_a_probability_counts_as_one_half() -> None:
    known = score_run(1_000, [SPIKE], [Event(100, "x", p_recover=1.0)])
    silent = score_run(1_000, [LOST], [Event(500, "x")])
    assert total([known, silent])["brier"] == 0.125
    assert total([silent])["brier"] is None


def test_figures_of_two_runs() -> None:
    seen = score_run(1_000, [SPIKE], [Event(102, "x"), Event(700, "x")])
    figures = total([seen, score_run(2_000, [LOST], [])])
    assert (figures["recall"], figures["precision"], figures["f1"]) == (0.5, 0.5, 0.5)
    healthy_rows = 1_000 - 21 + 2_000 - 500
    assert figures["false_signals_per_10k"] == round(1e4 / healthy_rows, 2)
    assert (figures["runs"], figures["rows"], figures["incidents"]) == (2, 3_000, 2)


def test_nothing_at_all() -> None:
    figures = total([score_run(0, [], [])])
    assert (figures["f1"], figures["delay_median"], figures["brier"]) == (0.0, None, None)


@given(st.lists(st.integers(0, 400)))
def test_episodes_cover_every_row_and_start_apart(rows: list[int]) -> None:
    starts = episode_starts(sorted(rows))
    assert all(any(start <= row <= start + MERGE_ROWS for start in starts) for row in rows)
    assert all(later - start > MERGE_ROWS for start, later in pairwise(starts))
