"""The likelihood-ratio test against what can be worked out by hand, and on noise with a jump."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.scoreboard.noise.measure import oracle_power
from tests.scoreboard.noise.multiplicative import Bursts, LogNormal, LogWander
from tests.scoreboard.noise.oracle import Known, statistics_of

SHIFT = math.log(4.0)


def test_one_value_of_log_normal_noise() -> None:
    factors = np.exp(np.array([0.0, 0.0, 1.2]))
    statistics = statistics_of(LogNormal(0.5), factors, times=4.0, longest=1)
    assert statistics[2] == pytest.approx((1.2**2 - (1.2 - SHIFT) ** 2) / (2 * 0.5**2))


def test_two_values_add_up() -> None:
    factors = np.exp(np.array([0.0, 0.0, 1.3, 1.5]))
    one = statistics_of(LogNormal(0.5), factors, times=4.0, longest=1)
    two = statistics_of(LogNormal(0.5), factors, times=4.0, longest=2)
    assert two[3] == pytest.approx(one[2] + one[3])


def test_correlated_noise_is_whitened() -> None:
    noise = LogWander(log_sd=0.8, tau=20.0)
    phi, sd = noise.correlation, noise.innovation_sd
    logs = np.array([0.1, 0.2, 1.4, 1.5])
    later = logs[3] - phi * logs[2]
    expected = sum(
        (value**2 - (value - mean) ** 2) / (2 * sd**2)
        for value, mean in ((logs[2] - phi * logs[1], SHIFT), (later, SHIFT * (1 - phi)))
    )
    assert statistics_of(noise, np.exp(logs), times=4.0, longest=2)[3] == pytest.approx(expected)


def test_bursts_that_never_come_are_log_normal_noise() -> None:
    never = Bursts(calm_sd=0.5, burst_sd=5.0, mean_calm=1e9, mean_burst=1.0 + 1e-9)
    factors = LogNormal(0.5).factors(np.random.default_rng(2), 50)
    found = statistics_of(never, factors, times=4.0, longest=3)
    assert found[3:] == pytest.approx(statistics_of(LogNormal(0.5), factors, times=4.0, longest=3)[3:], abs=1e-3)


@pytest.mark.parametrize("noise", [LogNormal(0.5), LogWander(0.8), Bursts()])
def test_a_jump_stands_out(noise: Known) -> None:
    factors = noise.factors(np.random.default_rng(4), 600)
    before = statistics_of(noise, factors, 4.0, 12)
    factors[500:512] *= 4.0
    after = statistics_of(noise, factors, 4.0, 12)
    assert after[500:512].max() > before[50:].max()
    assert (after[:500] == before[:500]).all()


def test_power_falls_with_the_false_rate_and_is_not_asked_for_in_calm_noise() -> None:
    strict, loose = (oracle_power("log-normal", rate, num_values=20_000, num_jumps=60) for rate in (0.5, 50.0))
    assert strict <= loose
    assert math.isnan(oracle_power("normal", 1.0))
