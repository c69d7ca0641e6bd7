"""Which stream moved first, whether it is over, and how far back the run is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec
import pytest

from holter.pipeline.core.decide.course import Course, CourseState, CourseTracker
from holter.pipeline.core.decide.progress import MAX_MARKS, Progress, ProgressState
from holter.pipeline.core.incidents import Incident
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS, UPDATE_NORM

ONSET = 60
CALM = (1.0, 1.0, 1.0)
Row = tuple[float, float, float]
"""Factors on loss (2.0), gradient norm and update norm of one step."""


def tracker(rows: Sequence[Row], has_update: bool = True) -> tuple[CourseTracker, Incident]:
    """60 calm records, then these."""
    noise = random.Random(1)
    followed = CourseTracker()
    for step, (loss, grad, update) in enumerate([CALM] * ONSET + list(rows)):
        values = {LOSS: 2.0 * loss + noise.gauss(0, 0.02), GRAD_NORM: grad * math.exp(noise.gauss(0, 0.2))}
        if has_update:
            values[UPDATE_NORM] = 0.1 * update * math.exp(noise.gauss(0, 0.1))
        followed.note(StepRecord(1, -1, step, step, step, True, True, values))
    return followed, Incident("i", "loss_spike", "spike", ONSET, 2.0, 0.05, 1.0, 4.0, ["loss_spike"])


def course(rows: Sequence[Row], has_update: bool = True) -> Course:
    followed, incident = tracker(rows, has_update)
    return followed.follow(incident, Progress(), 12.0)


@pytest.mark.parametrize(
    ("rows", "mover"),
    [
        ([(1, 1, 30), (1.3, 2, 30), (1.6, 4, 30)], "update"),
        ([(1, 1000, 2), (1, 1, 1)], "gradient"),
        ([(1, 20, 100), (1, 1, 1)], "update"),
        ([(3, 4, 1), (3, 4, 1)], "loss"),
        ([(3, 4, 8), (3, 4, 8)], "loss"),
        ([(3, 1, 1)], "loss"),
    ],
    ids=["burst", "gradient", "mostly the update", "bad data", "bad data moves all", "loss alone"],
)
def test_the_stream_that_moves_first_tells_the_cause(rows: list[Row], mover: str) -> None:
    assert course(rows).mover == mover


def test_without_an_update_norm_a_loss_that_moves_first_tells_nothing() -> None:
    assert course([(3, 4, 1)], has_update=False).mover == "unknown"


def test_it_is_over_when_what_moved_first_is_calm_again() -> None:
    burst: list[Row] = [(1, 1, 30), (1.3, 2, 30)]
    assert not course(burst).is_over
    after = course([*burst, (1.5, 2, 1), (1.5, 2, 1), (1.5, 2, 1)])
    assert (after.is_over, after.num_after, after.num_moving) == (True, 3, 2)


def test_updates_that_fade_as_moments_do_are_left_alone_though_still_large() -> None:
    pushed: list[Row] = [(1.0 + 0.2 * step, 2, 3000 * 0.75**step) for step in range(4)]
    assert not course(pushed[:2]).is_over
    assert course(pushed).is_over


def test_updates_that_come_from_outside_do_not_fade_and_are_not_over() -> None:
    assert not course([(1.5, 2, size) for size in (30, 34, 33, 20, 34, 29)]).is_over


def test_what_begins_again_is_not_over() -> None:
    assert course([(3, 1, 1), CALM, CALM, (3, 1, 1)]).num_after == 0


def test_what_does_not_end_is_not_waited_for_for_ever() -> None:
    shifted = course([(1.5, 1, 1)] * 20)
    assert not shifted.is_over
    assert shifted.num_after > 0


def test_updates_that_stay_too_large_beyond_all_patience_say_by_how_much_they_were_at_first() -> None:
    shifted: list[Row] = [(1, 1, 4), *[(1, 1, 6)] * 20]
    assert course(shifted).overdrive == pytest.approx(4.0, rel=0.3)
    assert course(shifted[:10]).overdrive == 1.0
    assert course([*shifted, CALM]).overdrive == 1.0
    assert course([(1.5, 1, 1)] * 20).overdrive == 1.0


def test_following_step_by_step_and_from_a_snapshot_says_the_same() -> None:
    rows: list[Row] = [(1, 1, 30), (1.3, 2, 30), (1.5, 2, 1), (1.4, 2, 1), (1.4, 1, 1)]
    whole, incident = tracker(rows)
    last = whole.follow(incident, Progress(), 12.0)
    stepwise, _ = tracker(rows[:1])
    for step, loss, grad, update in list(whole.state().kept)[1 - len(rows) :]:
        stepwise.follow(incident, Progress(), 12.0)
        values = {LOSS: loss, GRAD_NORM: grad, UPDATE_NORM: update}
        stepwise.note(StepRecord(1, -1, step, step, step, True, True, values))
        stored = msgspec.msgpack.encode(stepwise.state())
        stepwise = CourseTracker(msgspec.msgpack.decode(stored, type=CourseState))
    now = stepwise.follow(incident, Progress(), 12.0)
    unscaled = {"grad_ratio": 1.0, "displaced_steps": 0.0}
    assert now._replace(**unscaled) == last._replace(**unscaled)
    for measured, known in ((now.grad_ratio, last.grad_ratio), (now.displaced_steps, last.displaced_steps)):
        assert measured == pytest.approx(known, rel=0.1)  # the baseline is of the records kept then


def test_how_far_updates_carried_the_weights_is_told_in_ordinary_ones_once_a_loss_shows_it() -> None:
    burst: list[Row] = [(1, 1, 30)] * 5
    assert course([*burst, (1.5, 2, 1)]).displaced_steps == pytest.approx(5 * 29, rel=0.3)
    assert course([*burst, CALM]).displaced_steps == 0.0


def test_a_gradient_that_was_kept_out_of_the_moments_poisons_nothing() -> None:
    assert course([(1, 1000, 0), CALM]).grad_ratio < 3.0
    assert course([(1, math.inf, 0), CALM]).grad_ratio < 3.0
    assert course([(1, 1000, 2), CALM]).grad_ratio > 500.0


def test_losses_in_a_row_that_are_not_finite_are_counted() -> None:
    broken: Row = (math.nan, math.nan, math.nan)
    assert course([broken] * 4).num_non_finite == 4
    assert course([broken] * 4 + [CALM]).num_non_finite == 0


def test_updates_in_a_row_that_were_left_out_are_counted() -> None:
    overflow: Row = (1, math.inf, 0)
    assert course([overflow] * 4).num_withheld == 4
    assert course([overflow] * 4 + [CALM]).num_withheld == 0
    assert course([(1, 1000, 0)] * 4).num_withheld == 0


def test_a_step_that_was_not_taken_counts_as_left_out_without_an_update_norm() -> None:
    followed, incident = tracker([], has_update=False)
    for step in (ONSET, ONSET + 1):
        values = {LOSS: 2.0, GRAD_NORM: math.inf}
        followed.note(StepRecord(1, -1, step, step, step, False, True, values))
    assert followed.follow(incident, Progress(), 12.0).num_withheld == 2


def test_how_far_back_a_level_is_comes_from_the_run_itself() -> None:
    progress = Progress()
    for step in range(1000):
        if progress.is_due(step):
            progress.mark(step, 5.0 - step / 500)
    assert len(progress.state.steps) < MAX_MARKS
    assert progress.steps_back(999, 4.0) == pytest.approx(499, abs=1)
    assert progress.steps_back(999, 9.0) == 999
    progress.rewind(600)
    assert progress.state.steps[-1] <= 600
    assert math.isnan(Progress().steps_back(10, 1.0))


def test_marks_survive_being_stored() -> None:
    progress = Progress()
    for step in range(100):
        if progress.is_due(step):
            progress.mark(step, 5.0 - step / 50)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(progress.state), type=ProgressState)
    assert Progress(stored).steps_back(99, 4.0) == progress.steps_back(99, 4.0)
