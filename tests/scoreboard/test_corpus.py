"""What the project makes itself is labelled by construction: the labels must say what was done."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard import faults
from tests.scoreboard.corpus import noisy, published, simulated
from tests.scoreboard.kinds import all_kinds
from tests.scoreboard.kinds.kind import Kind
from tests.scoreboard.series import Array
from tests.scoreboard.truth import LabelledRun, truth_of

ROW = 200
SPECIAL = {"flow", "tiny regression", "unscaled regression", "quantised", "running mean"}
EVERY_FAULT = (
    faults.HealingSpike(),
    faults.DataBurst(),
    faults.Explosion(),
    faults.Divergence(),
    faults.SlowDivergence(),
    faults.NotANumber(),
    faults.Collapse(),
    faults.Plateau(),
    faults.HardBatch(),
    faults.Shift(),
    faults.WiderNoise(),
    faults.Zero(),
)


def columns() -> dict[str, Array]:
    random = np.random.default_rng(0)
    loss = 5.0 - 2.0 * np.linspace(0.0, 1.0, 600) + 0.02 * random.standard_normal(600)
    return {LOSS: loss, GRAD_NORM: 0.3 * np.exp(0.1 * random.standard_normal(600))}


@functools.cache
def simulated_runs() -> tuple[LabelledRun, ...]:
    """Without their records: what is asked of them is their names and labels."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulated, "records_of", lambda columns, every: [])
        return tuple(simulated.runs())


def column_of(records: Sequence[StepRecord], metric: str) -> list[float]:
    return [record.values[metric] for record in records]


@pytest.mark.parametrize("fault", EVERY_FAULT, ids=lambda fault: type(fault).__name__)
def test_a_fault_changes_what_its_label_spans_and_nothing_before(fault: faults.Fault) -> None:
    before, after = columns(), columns()
    label = fault.strike(after, ROW, np.random.default_rng(1))
    assert label.first_row == ROW
    assert any(not np.array_equal(before[metric][ROW:], after[metric][ROW:]) for metric in before)
    for metric in before:
        assert np.array_equal(before[metric][:ROW], after[metric][:ROW])
    if label.recovered:
        tail = slice(label.last_row + 60, None)
        assert np.allclose(before[LOSS][tail], after[LOSS][tail], atol=0.05)
    else:
        assert label.last_row == 599


def test_a_healing_spike_is_labelled_until_it_cannot_be_told_from_noise() -> None:
    hurt = columns()
    label = faults.HealingSpike(relative=1.0, tau=10.0).strike(hurt, ROW, np.random.default_rng(1))
    excess = hurt[LOSS] - columns()[LOSS]
    assert excess[ROW] > 2.0
    assert excess[label.last_row] == pytest.approx(0.1 * excess[ROW], rel=0.3)


def test_a_fault_is_larger_than_the_noise_it_lies_in() -> None:
    random = np.random.default_rng(2)
    noisy_loss = 1.0 + 0.5 * random.standard_normal(600)
    assert faults.height_of(noisy_loss, ROW, 0.1) == pytest.approx(4.0, rel=0.3)


def test_faults_of_one_run_keep_their_order() -> None:
    plan = ((0.3, faults.HealingSpike()), (0.7, faults.Divergence()))
    _, labels = faults.harmed(columns(), plan, np.random.default_rng(3))
    assert [label.kind for label in labels] == ["loss_spike", "divergence"]
    assert 160 < labels[0].first_row < 200 < 400 < labels[1].first_row < 440


def test_published_points_are_there_and_the_gaps_filled() -> None:
    run = published.bloom_176b()
    at = {record.step: record.values for record in run.records}
    assert at[31219][LOSS] == pytest.approx(5.098124)
    assert at[31219][GRAD_NORM] == pytest.approx(960.351)
    assert at[31250][GRAD_NORM] == pytest.approx(0.267)
    between = math.log(2.804948) + 14 / 28 * (math.log(2.215699) - math.log(2.804948))
    assert math.log(at[31236][LOSS]) == pytest.approx(between)
    assert len(run.records) == published.NUM_BEFORE + 38
    assert run.records[run.labels[0].first_row].step == 31215


def test_the_104b_run_is_logged_every_ten_steps_and_lost() -> None:
    run = published.bigscience_104b()
    assert {later.step - record.step for record, later in zip(run.records, run.records[1:], strict=False)} == {10}
    (incident,) = truth_of(run.labels).incidents
    assert not incident.recovered
    assert run.records[incident.first_row].step == 7010
    assert run.records[-1].values[LOSS] == pytest.approx(7.1551)


@pytest.mark.parametrize("kind", all_kinds.KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_healthy_runs_and_hurt_ones(kind: Kind) -> None:
    runs = list(kind.runs(seed=1))
    incidents = [len(truth_of(run.labels).incidents) for run in runs]
    assert incidents[: kind.num_healthy] == [0] * kind.num_healthy
    assert all(incidents[kind.num_healthy :])
    assert {run.family for run in runs} == {kind.name}
    for run in runs[: kind.num_healthy]:
        assert all(math.isfinite(value) for record in run.records for value in record.values.values())


def test_a_kind_is_the_same_each_time() -> None:
    first, second = (next(iter(all_kinds.KINDS[0].runs(seed=1))) for _ in range(2))
    assert first == second


def test_kinds_are_as_they_say() -> None:
    healthy = {kind.name: next(kind.runs(seed=1)).records for kind in all_kinds.KINDS if kind.name in SPECIAL}
    assert min(column_of(healthy["flow"], LOSS)) < 0.0 < max(column_of(healthy["flow"], LOSS))
    assert max(column_of(healthy["tiny regression"], LOSS)) < 1e-6
    assert min(column_of(healthy["unscaled regression"], LOSS)) > 1e5
    assert all(round(loss, 1) == loss for loss in column_of(healthy["quantised"], LOSS))
    steps = [record.step for record in healthy["running mean"]]
    assert steps[199:201] == [199, 0]


def test_names_are_of_one_run_each() -> None:
    names = Counter(kind.name for kind in all_kinds.KINDS)
    names.update(run.name for run in (*simulated_runs(), *simulated.runs(10), *published.runs()))
    assert set(names.values()) == {1}


def test_noisy_runs_have_nothing_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy, "healthy_run", lambda *names, **settings: [])
    assert {run.labels == [] for run in noisy.runs()} == {True}


def test_simulated_runs_hold_what_they_are_named_for() -> None:
    runs: dict[str, LabelledRun] = {run.name: run for run in simulated_runs()}
    lost = {name for name, run in runs.items() if any(not label.recovered for label in run.labels)}
    assert lost == {f"simulated/{name} @1" for name in ("lost", "lost slowly", "no number", "collapse", "plateau")}
    mixed = [label.kind for label in runs["simulated/mixed0 @1"].labels]
    assert mixed == ["benign_blip", "benign_blip", "loss_spike", "divergence", "divergence", "loss_spike"]
