"""The learned detector as a further signal: off by default, and a notice where it is on."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import msgspec
import pytest

from holter.pipeline.core.detect.learned import FEATURES, Learned, LearnedModel
from holter.pipeline.core.detect.learned_model import SHIPPED
from holter.pipeline.core.detect.stack import DetectorSettings
from holter.pipeline.core.signals import SignalSettings, SignalStage, SignalState
from holter.pipeline.core.steps import StepRecord
from holter.schemas.signals import Signal
from holter.schemas.telemetry import GRAD_NORM, LOSS

ON = SignalSettings(DetectorSettings(learned=SHIPPED))
KEEN = SignalSettings(DetectorSettings(learned=replace(SHIPPED, threshold=0.5)))
"""Speaks where the rules do not yet."""


def stage_of(settings: SignalSettings, state: SignalState | None = None) -> SignalStage:
    return SignalStage("p", "r", settings, state)


def judged(stage: SignalStage, losses: list[float], grads: list[float] | None = None, start: int = 0) -> list[Signal]:
    told = []
    for at, loss in enumerate(losses):
        values = {LOSS: loss} if grads is None else {LOSS: loss, GRAD_NORM: grads[at]}
        told += stage.update(StepRecord(1, 0, start + at, 0, at, True, True, values), 0)
    return told


def noisy(level: float, count: int, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [level + draw.gauss(0.0, 0.02) for _ in range(count)]


def small_bump() -> list[float]:
    """Too small for the rules."""
    return [*noisy(2.0, 400), *(value + 0.06 for value in noisy(2.0, 20, seed=1)), *noisy(2.0, 100, seed=2)]


def learned_of(told: list[Signal]) -> list[Signal]:
    return [signal for signal in told if signal.kind == "learned"]


def test_it_is_silent_unless_it_is_asked() -> None:
    losses = small_bump()
    assert learned_of(judged(stage_of(SignalSettings()), losses)) == []
    assert learned_of(judged(stage_of(KEEN), losses))


def test_it_tells_an_episode_once_as_a_notice_that_opens_no_incident() -> None:
    stage = stage_of(KEEN)
    (signal,) = learned_of(judged(stage, small_bump()))
    assert signal.is_notice
    assert 400 <= signal.step <= 420
    assert signal.score > signal.threshold == 0.5
    assert signal.explanation.startswith("it looks like the trouble of labelled runs (log odds")
    assert "by loss" in signal.explanation
    assert stage.incident is None


def test_it_moves_nothing_that_the_rules_say() -> None:
    losses = [*small_bump(), *[9.0 * 0.9**at for at in range(15)], *noisy(2.0, 100, seed=3), math.nan, math.inf]
    without, beside = (judged(stage_of(settings), losses) for settings in (SignalSettings(), KEEN))
    assert [signal for signal in beside if signal.kind != "learned"] == without
    assert {signal.phase for signal in without} >= {"open", "close"}


def test_it_says_nothing_of_an_incident_that_is_open_and_right_after_it() -> None:
    told = judged(stage_of(ON), [*noisy(2.0, 300), *[math.nan] * 4, *noisy(2.0, 15, seed=1)])
    assert told[0].phase == "open"
    assert learned_of(told) == []


def test_it_may_speak_before_the_rules_and_does_not_repeat_them() -> None:
    told = judged(stage_of(ON), [*noisy(2.0, 300), *[4.0] * 12, *noisy(2.0, 15, seed=1)])
    assert [(signal.step, signal.kind) for signal in told[:2]] == [(300, "learned"), (301, "loss_spike")]
    assert len(learned_of(told)) == 1


def test_a_value_that_is_no_number_weighs_most() -> None:
    stage = stage_of(ON)
    judged(stage, [*noisy(2.0, 100), math.nan], [*noisy(1.0, 100, seed=4), math.inf])
    assert stage.learned_features[FEATURES.index("not finite")] == 1.0
    assert SHIPPED.log_odds(stage.learned_features) > SHIPPED.threshold
    assert all(math.isfinite(value) for value in stage.learned_features)


def test_features_do_not_depend_on_the_unit_of_the_loss() -> None:
    losses = [*noisy(2.0, 200), 3.0, 3.1]
    small, large = stage_of(ON), stage_of(ON)
    judged(small, losses)
    judged(large, [1000.0 * value for value in losses])
    assert small.learned_features == pytest.approx(large.learned_features, abs=1e-6)
    assert small.learned_features[FEATURES.index("loss score")] == 12.0


def test_its_state_goes_on_where_it_was_kept() -> None:
    losses = small_bump()
    whole, first = stage_of(KEEN), stage_of(KEEN)
    told = judged(whole, losses)
    begun = judged(first, losses[:405])
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(first.state()), type=SignalState)
    assert begun + judged(stage_of(KEEN, kept), losses[405:], start=405) == told


def test_a_state_that_was_kept_without_it_begins_it_afresh() -> None:
    without = stage_of(SignalSettings())
    judged(without, noisy(2.0, 300))
    stage = stage_of(KEEN, without.state())
    assert learned_of(judged(stage, [*noisy(2.0, 50, seed=5), *(2.06 + 0.0 * at for at in range(20))], start=300))


def test_a_model_has_a_weight_for_each_feature() -> None:
    with pytest.raises(ValueError, match="3 weights for 16 features"):
        LearnedModel(0.0, (1.0, 2.0, 3.0), 0.0)


def test_what_it_remembers_is_forgotten_with_a_rollback() -> None:
    stage = stage_of(KEEN)
    judged(stage, noisy(2.0, 300))
    stage.begin_attempt(200)
    assert stage.state().detectors is not None
    assert stage.state().detectors.learned == Learned(SHIPPED).state  # type: ignore[union-attr]
