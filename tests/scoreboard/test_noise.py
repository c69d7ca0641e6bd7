"""Noise is what it says, the same every time, and measured as it says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.noise import jumps
from tests.scoreboard.noise.__main__ import main
from tests.scoreboard.noise.kinds import ALL, HARDER, NAMES, PROTOCOL, columns_of, healthy_run, log_sd
from tests.scoreboard.noise.measure import Measured, Plan, measure
from tests.scoreboard.noise.multiplicative import Bursts, LogWander


@pytest.mark.parametrize("name", [*NAMES, *HARDER])
def test_a_run_is_the_same_each_time_and_finite(name: str) -> None:
    once, again = (healthy_run(name, run=3, num_records=200, every=10) for _ in range(2))
    assert once == again
    assert [record.step for record in once[:3]] == [0, 10, 20]
    assert all(math.isfinite(value) for record in once for value in record.values.values())


@pytest.mark.parametrize("name", [name for name in ALL if "growth" not in name])
def test_the_middle_of_the_factors_is_about_one(name: str) -> None:
    factors = ALL[name].noise.factors(np.random.default_rng(5), 20_000)
    assert 0.8 < np.median(factors) < 1.6 or name.startswith("telegraph")


def test_runs_differ_from_each_other() -> None:
    assert healthy_run("normal", 1, 50) != healthy_run("normal", 3, 50)


def test_the_protocol_has_a_gradient_norm_and_others_may_be_one() -> None:
    assert set(columns_of(PROTOCOL, 0, 20)) == {LOSS, GRAD_NORM}
    assert set(columns_of("t3", 0, 20)) == {LOSS}
    noisy = columns_of("log-normal", 0, 2_000, metric=GRAD_NORM)
    assert np.log(noisy[GRAD_NORM]).std() == pytest.approx(1.0, abs=0.1)
    assert np.diff(np.log(noisy[LOSS][1_000:])).std() < 0.02


def test_thinned_noise_is_the_noise_thinned() -> None:
    wander = LogWander(tau=20.0)
    logs = np.log(wander.factors(np.random.default_rng(1), 400_000))[::10]
    assert np.corrcoef(logs[1:], logs[:-1])[0, 1] == pytest.approx(wander.thinned(10).correlation, abs=0.01)
    bursts = Bursts()
    thinned = bursts.thinned(10)
    share = bursts.mean_burst / (bursts.mean_burst + bursts.mean_calm)
    assert thinned.mean_burst / (thinned.mean_burst + thinned.mean_calm) == pytest.approx(share)


def test_log_sd_of_log_normal_noise() -> None:
    assert log_sd("log-normal") == pytest.approx(1.0, abs=0.02)


def test_a_jump_multiplies_or_adds() -> None:
    records = healthy_run("normal", 1, 300)
    row = 200
    times = jumps.jumped(records, row, LOSS, multiplicative=True)
    plus = jumps.jumped(records, row, LOSS, multiplicative=False)
    assert len(times) == len(plus) == jumps.NUM_RECORDS
    assert times[0].values[LOSS] == pytest.approx(4.0 * records[row].values[LOSS])
    assert plus[0].values[LOSS] - records[row].values[LOSS] == pytest.approx(3.0 * 2.5, rel=0.05)


def test_measure_counts_rows_and_sees_a_jump_in_calm_noise() -> None:
    measured = measure("normal", Plan(num_rows=1_000, num_records=1_000))
    assert measured.num_rows == 1_000
    assert measured.power == 1.0
    assert math.isnan(measured.oracle_power)


def test_false_signals_are_given_per_ten_thousand_rows() -> None:
    assert Measured("normal", 0.05, num_rows=5_000, num_false=2).false_per_10k == 4.0


def test_the_command_prints_both_cadences() -> None:
    command = typer.Typer()
    command.command()(main)
    done = CliRunner().invoke(command, ["--rows", "1000", "--only", "normal", "--json"])
    (once, tenth) = json.loads(done.stdout.splitlines()[-1])["normal"]
    assert (once["rows"], tenth["rows"], once["oracle"]) == (1_000, 1_000, None)
    assert CliRunner().invoke(command, ["--only", "nobody"]).exit_code == 2
