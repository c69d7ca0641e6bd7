"""The presets on one page."""

from __future__ import annotations

import math

import pytest

from holter.pipeline.core.decide.checkpoints import Checkpoint, CheckpointHealth
from holter.pipeline.core.decide.policy import Situation, cautious, patient, report, rollback_price_steps
from holter.pipeline.core.incidents import Incident
from holter.schemas.bounds import SignalKind
from holter.schemas.control import LrFactor, Rollback, SkipRange
from tests.core.test_run_operator import calm_rows, healthy_run

TARGET = Checkpoint("step-80", 80, 0.5)


def situation(
    p_recover: float = 0.9,
    step: int = 110,
    kinds: tuple[SignalKind, ...] = ("loss_spike",),
    non_finite: bool = False,
    outside_band: bool = True,
    checkpoint: Checkpoint | None = TARGET,
    num_unlikely: int = 0,
) -> Situation:
    incident = Incident("i", kinds[0], "spike", 100, 2.0, 0.1, 1.0, 4.0, list(kinds), p_recover=p_recover)
    incident.num_unlikely = num_unlikely
    return Situation(incident, step, non_finite, outside_band, checkpoint, 0.5, 0.1, 1.0)


def test_patient_waits_while_healing_is_likely() -> None:
    assert patient(situation(0.5)).name == "monitor"
    assert patient(situation(0.3, num_unlikely=1)).name == "monitor"
    assert patient(situation(0.3, num_unlikely=2)).name == "rollback"
    assert patient(situation(non_finite=True)).name == "rollback"


def test_going_back_skips_the_data_of_the_onset_and_after() -> None:
    assert patient(situation(0.1, num_unlikely=2)).effects == (Rollback("step-80", 80), SkipRange(99))


def test_without_a_healthy_checkpoint_there_is_only_waiting() -> None:
    choice = patient(situation(0.1, checkpoint=None, num_unlikely=2))
    assert choice.name == "monitor"
    assert "no healthy checkpoint" in choice.reason


def test_cautious_waits_as_long_as_going_back_would_have_cost() -> None:
    price = rollback_price_steps(situation(), TARGET)
    assert price == 20 + 5  # 20 steps before the onset, half a second of load at ten steps a second
    assert cautious(situation(step=124)).name == "monitor"
    assert cautious(situation(step=125)).name == "rollback"
    assert cautious(situation(step=125, outside_band=False)).name == "monitor"
    assert cautious(situation(step=125, checkpoint=None)).name == "monitor"


def test_report_goes_by_bands_of_probability() -> None:
    assert report(situation(0.29)).name == "rollback"
    assert report(situation(0.69)).effects == (LrFactor(0.5),)
    assert report(situation(0.7)).name == "monitor"


def test_report_resets_before_it_goes_back_at_an_explosion() -> None:
    exploding = situation(kinds=("grad_explosion",))
    assert report(exploding).name == "momentum_reset"
    exploding.incident.applied.append("momentum_reset")
    assert report(exploding).name == "rollback"


@pytest.mark.parametrize("policy", ["patient", "cautious", "report", "expected-cost"])
def test_every_decision_has_all_options_with_their_costs(policy: str) -> None:
    loop = healthy_run(policy)
    loop.checkpoint()
    loop.steps(calm_rows(30, seed=4))
    loop.step(loss=math.nan)
    (decision,) = loop.decisions()
    told = {option.name: option for option in decision.options}
    assert list(told) == [
        "monitor", "lr_cut", "momentum_reset", "clip_adjust", "skip_data", "rollback", "rollback to step-49", "stop",
    ]  # fmt: skip
    assert (decision.choice, told["rollback"].effects) == ("rollback", ["rollback", "skip_range"])
    assert all((option.cost_seconds is None) == (not option.available) for option in decision.options)
    assert (told["rollback"].cost_seconds or 0.0) < (told["rollback to step-49"].cost_seconds or 0.0)
    assert len(decision.reason) > 20


def test_a_checkpoint_is_healthy_when_calm_steps_follow_it() -> None:
    health = CheckpointHealth()
    health.saved(Checkpoint("a", 50, 0.1))
    assert health.advance(69, incident_is_open=False) is None
    assert health.advance(70, incident_is_open=False) == Checkpoint("a", 50, 0.1)
    assert health.newest_healthy(60) == Checkpoint("a", 50, 0.1)
    assert health.newest_healthy(49) is None


def test_an_incident_soon_after_a_checkpoint_makes_it_no_target() -> None:
    health = CheckpointHealth()
    health.saved(Checkpoint("a", 50, 0.1))
    health.incident_opened(65)
    assert health.advance(90, incident_is_open=False) is None


def test_what_was_saved_in_an_incident_is_no_target() -> None:
    health = CheckpointHealth()
    health.saved(Checkpoint("a", 50, 0.1))
    assert health.advance(60, incident_is_open=True) is None
    assert health.advance(100, incident_is_open=False) is None


def test_a_restart_of_the_process_forgets_what_it_held_in_memory() -> None:
    health = CheckpointHealth()
    health.saved(Checkpoint("file", 50, 0.1))
    health.saved(Checkpoint("copy", 60, 0.01, is_in_memory=True))
    health.advance(80, incident_is_open=False)
    assert health.newest_healthy(100) == Checkpoint("copy", 60, 0.01, is_in_memory=True)
    health.process_restarted()
    assert health.healthy_before(100) == (Checkpoint("file", 50, 0.1),)


def test_one_name_is_one_checkpoint() -> None:
    health = CheckpointHealth()
    health.saved(Checkpoint("a", 50, 0.01, is_in_memory=True))
    health.saved(Checkpoint("a", 50, 0.1))
    health.advance(70, incident_is_open=False)
    assert health.healthy_before(100) == (Checkpoint("a", 50, 0.1),)


def test_going_back_forgets_later_checkpoints_and_quarantine_any() -> None:
    health = CheckpointHealth()
    for step in (50, 100):
        health.saved(Checkpoint(f"step-{step}", step, 0.1))
        health.advance(step + 20, incident_is_open=False)
    health.rewind(80)
    assert health.newest_healthy(200) == Checkpoint("step-50", 50, 0.1)
    health.gone("step-50")
    assert health.newest_healthy(200) is None
