"""What holds for every statistic, whatever it computes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.operator import StateVersionError
from tests.core.stats.statistics import STATISTICS

VALUES = st.lists(st.floats(-1e3, 1e3), max_size=40)
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)
MERGED = [name for name, checked in STATISTICS.items() if checked.can_merge]
REVERTED = [name for name, checked in STATISTICS.items() if checked.can_revert]


def close(left: list[float], right: list[float]) -> bool:
    """Up to the rounding of sums of 80 squares of numbers up to 1000, and the square root of that."""
    return left == pytest.approx(right, rel=1e-6, abs=1e-3, nan_ok=True)


@pytest.mark.parametrize("name", STATISTICS)
@given(values=VALUES, more=VALUES)
def test_bytes_restore_all_that_it_knows(name: str, values: list[float], more: list[float]) -> None:
    checked = STATISTICS[name]
    whole = checked.fed(values)
    restored = type(whole).from_bytes(whole.to_bytes())
    assert restored.to_bytes() == whole.to_bytes()
    for step, value in enumerate(more, len(values)):
        checked.feed(whole, step, value)
        checked.feed(restored, step, value)
    assert restored.to_bytes() == whole.to_bytes()
    assert repr(checked.reads(restored)) == repr(checked.reads(whole))


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("raw", [b"", b"\x00", b"\xff" + bytes(200), b"\x01"])
def test_bytes_of_another_version_are_refused_by_name(name: str, raw: bytes) -> None:
    empty = STATISTICS[name].make()
    with pytest.raises(StateVersionError, match=f"{name}: .*version 1"):
        type(empty).from_bytes(raw)


@pytest.mark.parametrize("name", STATISTICS)
@given(values=st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=9), data=st.data())
def test_bytes_that_were_cut_are_refused(name: str, values: list[float], data: st.DataObject) -> None:
    statistic = STATISTICS[name].fed(values)
    raw = statistic.to_bytes()
    with pytest.raises(StateVersionError, match=name):
        type(statistic).from_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])


@pytest.mark.parametrize("name", STATISTICS)
@given(values=st.lists(ANYTHING, max_size=40))
def test_what_is_not_finite_never_enters(name: str, values: list[float]) -> None:
    checked = STATISTICS[name]
    statistic = checked.make()
    for step, value in enumerate(values):
        before = statistic.to_bytes()
        checked.feed(statistic, step, value)
        assert math.isfinite(value) or statistic.to_bytes() == before


@pytest.mark.parametrize("name", STATISTICS)
@given(values=st.lists(st.one_of(st.floats(-1e300, 1e300), st.sampled_from([1e300, -1e300])), min_size=4, max_size=40))
def test_no_overflow_makes_a_nan(name: str, values: list[float]) -> None:
    checked = STATISTICS[name]
    without = [math.isnan(read) for read in checked.reads(checked.fed([1.0, 2.0, 1.0, 2.0]))]
    reads = checked.reads(checked.fed([1.0, 2.0, 1.0, 2.0, *values]))
    if name != "cusum":  # whose onsets are unknown while a sum is zero
        assert all(math.isnan(read) <= before for read, before in zip(reads, without, strict=True))


@pytest.mark.parametrize("name", MERGED)
@given(parts=st.tuples(VALUES, VALUES, VALUES))
def test_merge_is_associative_and_makes_the_whole(name: str, parts: tuple[list[float], ...]) -> None:
    checked = STATISTICS[name]
    starts = [0, len(parts[0]), len(parts[0]) + len(parts[1])]

    def pieces() -> list[object]:
        return [checked.fed(part, start) for part, start in zip(parts, starts, strict=True)]

    left, middle, right = pieces()
    left.merge(middle)  # type: ignore[attr-defined]
    left.merge(right)  # type: ignore[attr-defined]
    first, second, third = pieces()
    second.merge(third)  # type: ignore[attr-defined]
    first.merge(second)  # type: ignore[attr-defined]
    assert close(checked.reads(left), checked.reads(first))
    assert close(checked.reads(left), checked.reads(checked.fed([*parts[0], *parts[1], *parts[2]])))


@pytest.mark.parametrize("name", MERGED)
@given(values=VALUES)
def test_the_empty_one_is_neutral(name: str, values: list[float]) -> None:
    checked = STATISTICS[name]
    left, right = checked.fed(values), checked.make()
    before = left.to_bytes()
    left.merge(checked.make())
    right.merge(checked.fed(values))
    assert left.to_bytes() == before == right.to_bytes()


@pytest.mark.parametrize("name", REVERTED)
@given(values=VALUES, extra=VALUES, data=st.data())
def test_revert_undoes_in_any_order(name: str, values: list[float], extra: list[float], data: st.DataObject) -> None:
    checked = STATISTICS[name]
    statistic = checked.fed(values)
    for step, value in enumerate(extra, len(values)):
        checked.feed(statistic, step, value)
    for step, value in data.draw(st.permutations(list(enumerate(extra, len(values))))):
        statistic.revert(*checked.arguments(step, value))
    assert close(checked.reads(statistic), checked.reads(checked.fed(values)))


@pytest.mark.parametrize("name", REVERTED)
def test_nothing_is_left_when_all_is_taken_back(name: str) -> None:
    checked = STATISTICS[name]
    statistic = checked.fed([1.1, 2.2, 3.3])
    for step, value in enumerate([1.1, 2.2, 3.3]):
        statistic.revert(*checked.arguments(step, value))
    assert statistic.to_bytes() == checked.make().to_bytes()
