"""Iterations are found, and the one that departs is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.diagnose.dtw import distance
from holter.pipeline.diagnose.iteration_marker import Marker, find_marker
from holter.pipeline.diagnose.iterations import MAX_EVENTS, MAX_ITERATIONS, Track, depart

EVENTS = st.lists(st.integers(-3, 3).filter(bool), max_size=8)

USUAL_FORMS = [
    "[2026-03-01 10:00:00] iteration      {n}/   50000 | loss: 2.1",
    "INFO step {n} done in 3 ms",
    "{{'loss': 2.1, 'step': {n}}}",
    "global_step={n}, loss=2.1",
    "Step: {n} | loss 2.1",
    "[{n}/500] loss 2.1",
    "Iter[{n}] loss 2.1",
]


@pytest.mark.parametrize("form", USUAL_FORMS)
def test_usual_forms_are_found(form: str) -> None:
    log = [line for n in range(7, 17) for line in (form.format(n=n), "saving to step 900 folder", "loaded 3 shards")]
    marker = find_marker(log)
    assert marker is not None
    assert marker.number(form.format(n=41).removeprefix("[2026-03-01 10:00:00] ").removeprefix("INFO ")) == 41
    assert marker.number("saving to step 900 folder") is None


def test_a_log_without_iterations_has_no_marker() -> None:
    assert find_marker(["loading step 3", "ready"] * 50) is None


def test_an_expression_of_the_user_counts_wherever_it_is() -> None:
    assert Marker(re.compile(r"update #(\d+)")).number("rank 3, update #77 took 3 s") == 77


def test_a_track_is_bounded() -> None:
    track = Track()
    for number in range(3 * MAX_ITERATIONS):
        track.begin(number)
        for event in range(2 * MAX_EVENTS):
            track.event(event)
    assert len(track.iterations) == MAX_ITERATIONS
    assert {len(events) for _, events in track.iterations} == {MAX_EVENTS}


@given(EVENTS, EVENTS)
def test_the_distance_is_one(one: list[int], other: list[int]) -> None:
    assert distance(one, other) == distance(other, one)
    assert 0.0 <= distance(one, other) <= 1.0
    assert distance(one, one) == 0.0


def usual(number: int) -> tuple[int, list[int]]:
    return number, [-1, -2, -3, -4, -5] + [-6] * (number % 5 == 0)


def test_the_beginning_of_the_last_trouble_is_told_with_the_stage() -> None:
    iterations = [usual(number) for number in range(40)]
    iterations[15] = (15, [-1, 7, 7, 8, -4, -5])
    for number in (34, 36, 39):
        iterations[number] = (number, [-1, -2, -3, 9, -4, -5])
    found = depart(iterations)
    assert found is not None
    assert (found.iteration, found.stage) == (34, -3)
    assert found.distance > found.threshold


def test_nothing_is_said_of_a_usual_run_or_of_a_short_one() -> None:
    assert depart([usual(number) for number in range(60)]) is None
    assert depart([(0, [-1]), (1, [5])]) is None


def test_a_usual_event_out_of_place_does_not_count_beside_unusual_ones() -> None:
    iterations = [usual(number) for number in range(40)]
    iterations[33] = (33, [-1, -7, -8, -9, -8, -9])
    assert depart(iterations[:38]).iteration == 33  # type: ignore[union-attr]
    iterations[39] = (39, [-1, -2, -3, 9, -4, -5])
    assert depart(iterations).iteration == 39  # type: ignore[union-attr]
