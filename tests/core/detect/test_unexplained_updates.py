"""Updates that jump though neither the rate nor the gradients did, and those that something explains."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import msgspec
import pytest

from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.unexplained_updates import (
    RULE,
    UnexplainedUpdates,
    UnexplainedUpdateSettings,
    UnexplainedUpdateState,
)

Row = tuple[float, float, float]
"""Update norm, learning rate, gradient norm."""

NUM_CALM = 60


def updates() -> UnexplainedUpdates:
    return UnexplainedUpdates(UnexplainedUpdateSettings())


def warmup(count: int = NUM_CALM, seed: int = 1) -> list[Row]:
    """The rate rises from nothing, and the updates with it."""
    draw = random.Random(seed)
    rates = [1e-3 * (step + 1) / 100 for step in range(count)]
    return [(50 * rate * math.exp(draw.gauss(0, 0.1)), rate, math.exp(draw.gauss(0, 0.25))) for rate in rates]


def scaled(rows: Iterable[Row], update: float = 1.0, rate: float = 1.0, grad: float = 1.0) -> list[Row]:
    return [(update * row[0], rate * row[1], grad * row[2]) for row in rows]


def feed(detector: UnexplainedUpdates, rows: Iterable[Row], start: int = 0) -> list[Evidence | None]:
    return [detector.update(step, *row) for step, row in enumerate(rows, start)]


def seen(later: list[Row]) -> list[int]:
    """The steps after a calm beginning at which something is said."""
    detector = updates()
    assert not any(feed(detector, warmup()))
    found = feed(detector, later, NUM_CALM)
    return [NUM_CALM + at for at, item in enumerate(found) if item is not None]


def after(count: int) -> list[Row]:
    return warmup(NUM_CALM + count)[NUM_CALM:]


def test_a_jump_that_stays_is_seen_at_its_third_record_and_as_long_as_it_stays() -> None:
    assert seen([*scaled(after(20), update=3.0), *after(30)[20:]]) == list(range(NUM_CALM + 2, NUM_CALM + 20))


@pytest.mark.parametrize(
    "later",
    [
        scaled(after(20), update=3.0, rate=3.0),
        scaled(after(20), update=3.0, grad=3.0),
        scaled(after(20), rate=0.2),
        scaled(after(2), update=3.0) + after(20)[2:],
        scaled(after(20), update=1.7),
        [(0.0, rate, grad) for _, rate, grad in after(20)],
    ],
    ids=["the rate", "the gradients", "only the rate fell", "two records", "small", "steps left out"],
)
def test_what_is_explained_or_small_or_passes_is_left_alone(later: list[Row]) -> None:
    assert seen(later) == []


def test_gradients_that_grow_because_of_it_do_not_end_it() -> None:
    later = [*scaled(after(4), update=3.0), *scaled(after(20)[4:], update=3.0, grad=8.0)]
    assert seen(later)[-1] == NUM_CALM + 19


def test_a_run_that_reports_no_rate_is_not_judged() -> None:
    detector = updates()
    rows = [(update, 0.0, grad) for update, _, grad in [*warmup(), *scaled(after(20), update=5.0)]]
    assert not any(feed(detector, rows))


def test_evidence_names_the_onset_and_holds_against_what_is_explained() -> None:
    detector = updates()
    feed(detector, warmup())
    item = feed(detector, scaled(after(3), update=3.0), NUM_CALM)[-1]
    assert item is not None
    assert (item.kind, item.onset_step, item.rule) == ("update_explosion", NUM_CALM, RULE)
    assert item.score == pytest.approx(item.value / item.baseline)
    assert 2.0 < item.score < 4.0


def test_loud_noise_of_updates_asks_for_more() -> None:
    draw = random.Random(2)
    detector = updates()
    rows = [(math.exp(draw.gauss(0, 1.0)), 1e-3, 1.0) for _ in range(5000)]
    assert not any(feed(detector, rows))


@pytest.mark.parametrize(("settles", "num_said"), [(True, 8), (False, UnexplainedUpdateSettings().max_held)])
def test_after_its_incident_or_after_long_the_level_is_a_new_one(settles: bool, num_said: int) -> None:
    detector = updates()
    feed(detector, warmup())
    high = scaled([warmup()[-1]] * 300, update=3.0)
    found = feed(detector, high[:10], NUM_CALM)
    if settles:
        detector.settle()
    found += feed(detector, high[10:], NUM_CALM + 10)
    assert sum(item is not None for item in found) == num_said


def test_going_back_forgets_what_was_high_and_keeps_what_was_before() -> None:
    detector = updates()
    feed(detector, warmup())
    feed(detector, scaled(after(10), update=3.0), NUM_CALM)
    detector.rewind(NUM_CALM - 11)
    assert not any(feed(detector, warmup()[-10:], NUM_CALM - 10))
    assert feed(detector, scaled(after(3), update=3.0), NUM_CALM)[-1] is not None


def test_a_restore_at_any_record_changes_nothing() -> None:
    rows = [*warmup(), *scaled(after(10), update=3.0), *after(30)[10:]]
    whole, broken = updates(), updates()
    for step, row in enumerate(rows):
        raw = msgspec.msgpack.encode(broken.stored())
        broken = UnexplainedUpdates(
            UnexplainedUpdateSettings(), msgspec.msgpack.decode(raw, type=UnexplainedUpdateState)
        )
        assert broken.update(step, *row) == whole.update(step, *row)
    assert broken.stored() == whole.stored()
