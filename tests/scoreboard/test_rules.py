"""Each rule fires where its authors say it does, and stays silent where they say nothing."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.rule import Event, Rule
from tests.scoreboard.rules import (
    axlearn,
    lightning,
    llm_foundry,
    mean_and_median,
    megatron,
    olmo_score,
    olmo_skip,
    qwen,
    wandb_zscore,
    zclip,
    zscore_skip,
)
from tests.scoreboard.rules.all_rules import PEERS, RULES
from tests.scoreboard.rules.holter import Holter
from tests.scoreboard.rules.moments import RollingMoments
from tests.scoreboard.rules.zclip import ZClip
from tests.scoreboard.series import Array, records_of

SIZE, AT = 400, 300
JUMPY = (mean_and_median.THREE, wandb_zscore.RULE, zclip.RULE)


def calm(random: np.random.Generator) -> tuple[Array, Array]:
    return 2.0 + 0.02 * random.standard_normal(SIZE), 0.4 * np.exp(0.1 * random.standard_normal(SIZE))


def judged(rule: Rule, losses: Array, norms: Array | None = None) -> list[Event]:
    return rule.events(records_of({LOSS: losses} if norms is None else {LOSS: losses, GRAD_NORM: norms}))


@pytest.mark.parametrize("rule", [rule for rule in PEERS if rule not in JUMPY], ids=lambda rule: rule.name)
def test_calm_runs_are_left_alone(rule: Rule) -> None:
    losses, norms = calm(np.random.default_rng(1))
    assert judged(rule, losses, norms) == []


@pytest.mark.parametrize("rule", JUMPY, ids=lambda rule: rule.name)
def test_some_rules_fire_on_plain_normal_noise(rule: Rule) -> None:
    losses, norms = calm(np.random.default_rng(1))
    assert 0 < len(judged(rule, losses, norms)) < 0.05 * SIZE


@pytest.mark.parametrize(
    ("rule", "loss_times", "norm_times", "action"),
    [
        (mean_and_median.FIVE, 1.5, 1.0, "rollback"),
        (mean_and_median.FIVE, 1.0, 8.0, "momentum_reset"),
        (lightning.RULE, 3.5, 1.0, "rollback"),
        (zscore_skip.RULE, 2.0, 1.0, "skip_range"),
        (olmo_skip.RULE, 1.0, 6.0, "skip_range"),
        (olmo_score.RULE, 1.5, 1.0, "none"),
        (axlearn.RULE, 1.0, 25.0, "skip_range"),
        (wandb_zscore.RULE, 1.2, 1.0, "none"),
        (zclip.RULE, 1.0, 5.0, "clip"),
        (megatron.RULE, 12.0, 1.0, "none"),
        (qwen.RULE, 1.1, 1.0, "none"),
    ],
)
def test_a_row_that_stands_out_is_seen(rule: Rule, loss_times: float, norm_times: float, action: str) -> None:
    losses, norms = calm(np.random.default_rng(2))
    losses[AT] *= loss_times
    norms[AT] *= norm_times
    assert [event.action for event in judged(rule, losses, norms) if event.row == AT] == [action]


def test_llm_foundry_waits_for_five_in_a_row() -> None:
    losses, _ = calm(np.random.default_rng(3))
    losses[AT : AT + 4] *= 3.0
    assert judged(llm_foundry.RULE, losses) == []
    losses[AT + 4] *= 3.0
    assert [event.row for event in judged(llm_foundry.RULE, losses)] == [AT + 4]


def test_llm_foundry_ends_a_run_that_stays_above_ten() -> None:
    assert judged(llm_foundry.RULE, np.full(SIZE, 11.0))[0] == Event(200, "divergence", "stop")


def test_one_nan_blocks_olmo_core_for_its_whole_window() -> None:
    losses, _ = calm(np.random.default_rng(4))
    losses[100] = math.nan
    assert [event.row for event in judged(olmo_skip.RULE, losses)] == list(range(100, 229))


def test_values_that_are_no_numbers() -> None:
    losses, norms = calm(np.random.default_rng(5))
    losses[AT] = norms[AT] = math.nan
    at = {rule.name: [event.row for event in judged(rule, losses, norms)] for rule in PEERS}
    assert AT in at[lightning.RULE.name]
    assert at[megatron.RULE.name] == [AT]
    assert at[axlearn.RULE.name] == [AT]
    assert AT not in at[qwen.RULE.name]


def test_zclip_moves_its_averages_as_published() -> None:
    """Mean 1, sd .5, threshold 2, norm 3: the clipped norm 1.5 gives mean 1.015 and variance .24956."""
    rule = ZClip(threshold=2.0, num_warmup=0)
    rule.mean, rule.variance = 1.0, 0.25
    assert rule.update(None, 3.0) is not None
    assert rule.mean == pytest.approx(1.015, abs=1e-5)
    assert rule.variance == pytest.approx(0.24956, abs=1e-4)


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) >= 10


def test_holter_sees_a_spike_and_gives_a_probability() -> None:
    losses, norms = calm(np.random.default_rng(6))
    losses[AT : AT + 20] += 3.0
    norms[AT : AT + 20] *= 50.0
    events = judged(Holter(), losses, norms)
    assert events[0].row in range(AT, AT + 3)
    assert events[0].p_recover is not None
    assert {event.incident for event in events} == {events[0].incident}


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40), st.integers(2, 8))
def test_rolling_moments_are_those_of_the_newest(values: list[float], capacity: int) -> None:
    window = RollingMoments(capacity)
    for value in values:
        window.push(value)
    newest = values[-capacity:]
    assert window.mean() == pytest.approx(statistics.fmean(newest), abs=1e-6)
    assert window.sd() == pytest.approx(statistics.stdev(newest), abs=1e-4)


def test_rolling_moments_forget_a_nan_when_it_has_left() -> None:
    window = RollingMoments(3)
    for value in (1.0, math.nan, 1.0):
        window.push(value)
    assert math.isnan(window.mean())
    window.push(3.0)
    window.push(2.0)
    assert (window.mean(), window.sd()) == (2.0, 1.0)
