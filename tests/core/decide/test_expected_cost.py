"""The cure follows the cause, and its price: single situations, then whole runs that are hurt in known ways."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from holter.pipeline.core.decide.checkpoints import Checkpoint
from holter.pipeline.core.decide.course import Course, Mover
from holter.pipeline.core.decide.expected_cost import ExpectedCost
from holter.pipeline.core.decide.settings import CostSettings
from holter.pipeline.core.decide.situation import Situation
from holter.pipeline.core.incidents import Incident
from holter.schemas.bounds import EffectName
from holter.schemas.commands import Prior
from holter.schemas.control import LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, STEP_SECONDS, UPDATE_NORM
from tests.core.test_run_operator import Loop
from tests.telemetry import ALL_EFFECTS

NEWEST, OLDER = Checkpoint("step-480", 480, 0.5), Checkpoint("step-430", 430, 0.5)
EFFECTS: list[EffectName] = ["lr_factor", "momentum_reset", "rollback", "skip_range", "stop"]
CHOOSE = ExpectedCost()


def course(
    mover: Mover, to_heal: float = 0.0, num_bad: int = 0, is_over: bool = True, grad_ratio: float = 1.0
) -> Course:
    return Course(mover, is_over, num_bad, num_bad, 3 * is_over, to_heal, grad_ratio)


def situation(
    so_far: Course,
    p_recover: float = 0.9,
    step: int = 505,
    checkpoint: Checkpoint | None = NEWEST,
    effects: list[EffectName] | None = None,
    **more: object,
) -> Situation:
    incident = Incident("i", "loss_spike", "spike", 500, 2.0, 0.1, 1.0, 4.0, ["loss_spike"], p_recover=p_recover)
    older = (OLDER,) if checkpoint is not None else ()
    values = {"non_finite": False, "outside_band": False, "lr_factor": 1.0, "older_checkpoints": older, **more}
    return Situation(
        incident=incident, step=step, checkpoint=checkpoint, load_seconds=0.5, step_seconds=0.1, course=so_far,
        applicable=EFFECTS if effects is None else effects, **values,  # type: ignore[arg-type]
    )  # fmt: skip


def test_what_heals_by_itself_soon_is_left_alone() -> None:
    assert CHOOSE(situation(course("update", to_heal=10.0))).name == "monitor"


def test_an_update_that_set_the_run_far_back_is_undone_though_it_would_heal() -> None:
    choice = CHOOSE(situation(course("update", to_heal=270.0)))
    assert choice.effects == (Rollback("step-480", 480), SkipRange(499))
    assert choice.reason.startswith("the update norm moved first; rollback costs ")


@pytest.mark.parametrize("mover", ["update", "loss", "unknown"])
def test_the_learning_rate_is_not_cut_after_a_burst(mover: Mover) -> None:
    costs = {option.name: option.cost_seconds for option in CHOOSE(situation(course(mover, 270.0))).options}
    assert (costs["lr_cut"] or 0.0) > (costs["monitor"] or 0.0)


def test_updates_that_stay_too_large_are_brought_down_to_what_they_were() -> None:
    driven = course("update", is_over=False)._replace(overdrive=4.0, num_moving=12, num_after=1)
    assert CHOOSE(situation(driven, step=513)).effects == (LrFactor(0.25, 200),)


def test_going_back_from_updates_that_no_rate_brings_down_lowers_it_as_far_as_it_goes() -> None:
    driven = course("update", is_over=False)._replace(overdrive=40.0, num_moving=12, num_after=1)
    choice = CHOOSE(situation(driven, step=513))
    assert choice.effects == (Rollback("step-480", 480), SkipRange(499), LrFactor(0.1, 200))


def test_while_it_goes_on_going_back_waits_for_its_end() -> None:
    choice = CHOOSE(situation(course("update", math.nan, num_bad=3, is_over=False)))
    assert choice.name == "monitor"
    assert "still goes on" in choice.reason


@pytest.mark.parametrize(("num_bad", "chosen"), [(1, "monitor"), (3, "monitor"), (10, "rollback")])
def test_bad_data_is_undone_only_where_there_was_much_of_it(num_bad: int, chosen: str) -> None:
    assert CHOOSE(situation(course("loss", 0.0, num_bad))).name == chosen


def test_an_exploded_gradient_is_cleared_from_the_moments() -> None:
    exploded = situation(course("gradient", grad_ratio=1000.0))
    assert CHOOSE(exploded._replace(checkpoint=OLDER)).effects == (MomentumReset(),)
    assert CHOOSE(situation(course("gradient", grad_ratio=20.0))).name == "monitor"


def test_moments_that_hold_nothing_bad_are_kept_where_the_run_is_stuck() -> None:
    stuck = situation(course("gradient", grad_ratio=12.0), 0.1, outside_band=True)
    assert CHOOSE(stuck).name == "rollback"


def test_moments_are_cleared_once() -> None:
    exploded = situation(course("gradient", grad_ratio=1000.0), checkpoint=OLDER)
    exploded.incident.applied.append("momentum_reset")
    assert CHOOSE(exploded).name == "monitor"


def test_a_trainer_that_clips_has_kept_it_out() -> None:
    clips: list[EffectName] = [*EFFECTS, "clip_adjust"]
    assert CHOOSE(situation(course("gradient", grad_ratio=1000.0), effects=clips, clips=True)).name == "monitor"


def test_explosions_again_and_again_are_clipped_tighter() -> None:
    clips: list[EffectName] = [*EFFECTS, "clip_adjust"]
    again = CHOOSE(situation(course("gradient", grad_ratio=1000.0), effects=clips, clips=True, num_alike=4))
    assert again.name == "clip_adjust"


def test_weights_without_numbers_are_replaced_at_once() -> None:
    assert CHOOSE(situation(course("loss", math.nan, is_over=False), p_recover=0.9, non_finite=True)).name == "rollback"


@pytest.mark.parametrize(("num_withheld", "chosen"), [(10, "monitor"), (45, "monitor"), (120, "rollback")])
def test_updates_that_are_left_out_while_the_losses_are_calm_are_waited_for_within_reason(
    num_withheld: int, chosen: str
) -> None:
    """Going back would meet the same data again; but not for ever."""
    overflowing = course("gradient", num_bad=12, is_over=True)._replace(num_withheld=num_withheld)
    assert CHOOSE(situation(overflowing, step=500 + num_withheld)).name == chosen


def test_updates_that_are_left_out_do_not_excuse_losses_that_stay_up() -> None:
    overflowing = course("gradient", num_bad=12, is_over=True)._replace(num_withheld=40)
    assert CHOOSE(situation(overflowing, step=540, outside_band=True)).name == "rollback"


def test_where_they_come_again_more_of_the_data_is_passed_over_first() -> None:
    again = situation(course("loss", math.nan, is_over=False), non_finite=True, num_tried={"step-480": 1})
    assert [CHOOSE(again._replace(step=step)).name for step in (501, 515, 516)] == ["monitor", "monitor", "rollback"]
    assert "passed over" in CHOOSE(again._replace(step=501)).reason


@pytest.mark.parametrize("p_recover", [0.05, 0.1])
def test_what_will_not_heal_is_undone(p_recover: float) -> None:
    assert CHOOSE(situation(course("unknown", math.nan), p_recover, outside_band=True)).name == "rollback"


def test_waiting_has_an_end_at_what_going_back_costs() -> None:
    """Ski rental: with nothing known of the time to heal, as long again as was waited."""
    chosen = [CHOOSE(situation(course("update", math.nan), step=step, outside_band=True)).name for step in (505, 600)]
    assert chosen == ["monitor", "rollback"]


def test_what_came_again_is_not_replayed_the_same_way() -> None:
    tried = CHOOSE(situation(course("update", 900.0), num_tried={"step-480": 1}))
    assert tried.effects == (Rollback("step-480", 480), SkipRange(499), LrFactor(0.5, 200))
    no_change: list[EffectName] = ["rollback"]
    kept = CHOOSE(situation(course("update", 900.0), effects=no_change, num_tried={"step-480": 1}))
    assert kept.name == "monitor"
    assert "the same replay again" in next(option.note for option in kept.options if option.name.startswith("rollback"))


def test_without_a_way_back_a_stubborn_divergence_is_slowed() -> None:
    stubborn = situation(course("update", math.nan), 0.1, 540, None, outside_band=True)
    assert CHOOSE(stubborn).effects == (LrFactor(0.5, 200),)


def test_what_cannot_be_cured_is_stopped_where_steps_are_dear() -> None:
    lost = situation(course("unknown", math.nan), 0.02, 540, None, ["stop"], outside_band=True)
    assert CHOOSE(lost._replace(step_seconds=10.0)).name == "stop"
    assert CHOOSE(lost).name == "monitor"


def test_what_failed_here_is_chosen_no_more_and_priors_count() -> None:
    exploded = situation(course("gradient", grad_ratio=1000.0), checkpoint=OLDER)
    failed = {"loss_spike/momentum_reset": Prior(20.0, 0.0)}
    assert CHOOSE(exploded._replace(helped=failed)).name != "momentum_reset"
    assert CHOOSE(exploded._replace(priors={"loss_spike/momentum_reset": Prior(900.0, 0.0)})).name != "momentum_reset"
    assert CHOOSE(exploded).name == "momentum_reset"


def test_every_option_is_told_with_its_cost_in_seconds_of_the_job() -> None:
    choice = CHOOSE(situation(course("update", 270.0)))
    told = {option.name: option for option in choice.options}
    assert list(told) == [
        "monitor", "lr_cut", "momentum_reset", "clip_adjust", "skip_data", "rollback", "rollback to step-430", "stop",
    ]  # fmt: skip
    assert choice.name in told
    assert not told["clip_adjust"].available
    seconds = told["rollback"].cost_seconds
    assert seconds is not None
    assert seconds > (5 + 20) * 0.1 + 0.5  # waited, lost and loaded; the rest is the chance that it comes again


def test_settings_move_the_choice() -> None:
    patient = ExpectedCost(CostSettings(trust=0.0))
    assert patient(situation(course("update", to_heal=270.0))).name == "monitor"


Fault = Callable[[int, dict[str, float]], None]


def run(fault: Fault, num_steps: int = 40, at: int = 170) -> Loop:
    """A run that learns, with checkpoints every 50 steps, hurt at a step; until something is done or it is over."""
    noise = random.Random(3)
    loop = Loop("expected-cost")
    loop.send(loop.trainer.event(ALL_EFFECTS))
    for step in range(at + num_steps):
        values = {
            LOSS: 2.2 + 2.6 * math.exp(-step / 80) + noise.gauss(0, 0.04),
            GRAD_NORM: math.exp(noise.gauss(0, 0.25)),
            UPDATE_NORM: 0.1 * math.exp(noise.gauss(0, 0.1)),
            LEARNING_RATE: 1e-3,
            STEP_SECONDS: 0.05,
        }
        if step >= at:
            fault(step - at, values)
        loop.send(loop.trainer.steps([values]))
        if step and step % 50 == 0:
            loop.checkpoint()
        if loop.actions():
            break
    return loop


def lr_burst(step: int, values: dict[str, float]) -> None:
    if step < 5:
        values[UPDATE_NORM] *= 30
    gap = 0.3 * min(step, 5) / (1 + max(0, step - 5) / 40)
    values[LOSS] += gap
    values[GRAD_NORM] *= 1 + gap


def bad_batches(num: int) -> Fault:
    def hurt(step: int, values: dict[str, float]) -> None:
        if step < num:
            values[LOSS], values[GRAD_NORM] = 6.0, 3.0 * values[GRAD_NORM]

    return hurt


def exploded_gradient(step: int, values: dict[str, float]) -> None:
    if step == 0:
        values[GRAD_NORM] *= 1000
        values[UPDATE_NORM] *= 2


def hidden_rate(step: int, values: dict[str, float]) -> None:
    values[UPDATE_NORM] *= 3.2


def nothing(step: int, values: dict[str, float]) -> None:
    pass


@pytest.mark.parametrize(
    ("fault", "chosen"),
    [
        (lr_burst, "rollback"),
        (bad_batches(1), None),
        (bad_batches(2), None),
        (bad_batches(10), "rollback"),
        (exploded_gradient, "momentum_reset"),
        (hidden_rate, "lr_cut"),
        (nothing, None),
    ],
    ids=["lr burst", "one bad batch", "two", "ten", "gradient", "hidden rate", "unhurt"],
)
def test_a_run_that_is_hurt_gets_the_cure_of_its_fault(fault: Fault, chosen: str | None) -> None:
    loop = run(fault)
    assert [decision.choice for decision in loop.decisions() if decision.action] == ([chosen] if chosen else [])


def test_a_burst_is_over_before_the_run_goes_back() -> None:
    (action,) = run(lr_burst).actions()
    assert 170 + 5 <= action.first_step <= 170 + 10
    assert action.effects[0] == Rollback("step-100", 100)


def test_non_finite_losses_are_acted_on_at_once() -> None:
    def hurt(step: int, values: dict[str, float]) -> None:
        values[LOSS] = math.nan

    (action,) = run(hurt).actions()
    assert action.first_step <= 172
