"""Each detector on its own: what it must see and what it must leave alone."""

from __future__ import annotations

import math
import random

import pytest

from holter.pipeline.core.detect.evidence import Detector, Evidence
from holter.pipeline.core.detect.explosion import Explosion, ExplosionSettings
from holter.pipeline.core.detect.loss_spike import LossSpike, LossSpikeSettings
from holter.pipeline.core.detect.nonfinite import NonFinite
from holter.pipeline.core.steps import StepRecord


def feed(detector: Detector, values: list[float], start: int = 0, applied: bool = True) -> list[Evidence]:
    records = [StepRecord(1, 0, start + index, 0, 0, applied, True, {"m": value}) for index, value in enumerate(values)]
    return [found for record in records if (found := detector.update(record)) is not None]


def noise(count: int, level: float = 2.0, sd: float = 0.03, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [level + draw.gauss(0.0, sd) for _ in range(count)]


def loss_spike() -> LossSpike:
    return LossSpike("m", LossSpikeSettings())


def explosion() -> Explosion:
    return Explosion("grad_explosion", "m", ExplosionSettings())


def test_ordinary_noise_is_no_spike() -> None:
    assert feed(loss_spike(), noise(5000)) == []


def test_one_huge_loss_is_a_spike_at_once() -> None:
    detector = loss_spike()
    feed(detector, noise(60))
    (found,) = feed(detector, [4.0], start=60)
    assert (found.kind, found.onset_step, found.value) == ("loss_spike", 60, 4.0)
    assert found.score > 10


def test_a_smaller_one_counts_when_it_comes_again_and_names_the_first() -> None:
    detector = loss_spike()
    feed(detector, noise(60))
    assert feed(detector, [2.0 + 8 * 0.03 * 1.1], start=60) == []
    (found,) = feed(detector, [2.0 + 8 * 0.03 * 1.1], start=61)
    assert found.onset_step == 60


def test_a_spike_does_not_move_its_own_reference() -> None:
    detector = loss_spike()
    feed(detector, noise(128))
    found = feed(detector, [8.0] + [5.0] * 40, start=128)
    assert len(found) == 41


def test_a_new_level_that_lasts_becomes_the_baseline() -> None:
    detector = loss_spike()
    feed(detector, noise(128))
    feed(detector, noise(60, level=3.0, seed=1), start=128)
    assert feed(detector, noise(200, level=3.0, seed=2), start=188) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_enter_nothing(bad: float) -> None:
    for detector in (loss_spike(), explosion()):
        feed(detector, noise(60))
        assert feed(detector, [bad] * 5, start=60) == []
        assert len(feed(detector, [50.0], start=65)) == 1


def test_a_constant_log_has_a_floor() -> None:
    detector = loss_spike()
    assert feed(detector, [2.0] * 100 + [2.01] * 3) == []
    assert feed(detector, [2.5], start=103) != []


def test_a_norm_explodes_by_its_ratio_whatever_its_scale() -> None:
    for unit in (1e-6, 1.0, 1e6):
        detector = explosion()
        draw = random.Random(3)
        calm = [unit * math.exp(draw.gauss(0.0, 0.25)) for _ in range(2000)]
        assert feed(detector, calm) == []
        (found,) = feed(detector, [30.0 * unit], start=2000)
        assert 20.0 < found.score < 45.0


def test_zero_norms_do_not_divide() -> None:
    assert feed(explosion(), [0.0] * 50 + [1.0]) == []


def test_going_back_forgets_what_came_later() -> None:
    detector = loss_spike()
    feed(detector, noise(60))
    detector.rewind(20)
    assert max(detector.accepted.steps()) == 20


def test_a_non_finite_value_is_critical_only_where_it_was_applied() -> None:
    detector = NonFinite(("m",))
    assert [found.severity for found in feed(detector, [math.nan])] == ["critical"]
    assert [found.severity for found in feed(detector, [math.inf], applied=False)] == ["warning"]
    assert feed(detector, [1.0]) == []
