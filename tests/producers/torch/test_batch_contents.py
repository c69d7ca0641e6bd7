"""Which samples, tokens and ids a batch holds, and which data is left out for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.producers.bad_batches import BadBatches, NoBadBatches, read_bad_batches
from holter.producers.torch.batch_contents import BatchContents, Extent, count
from holter.producers.torch.lineage import Lineage
from holter.schemas.control import Rollback, SkipRange
from tests.producers.torch.loops import Training
from tests.producers.torch.test_recovery import act
from tests.producers.torch.test_rollback import checkpoint_at
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch


def text(num_samples: int, length: int = 16) -> torch.Tensor:
    return torch.zeros(num_samples, length, dtype=torch.long)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (text(8), (8, 128)),
        ((text(8), text(8)), (8, 128)),
        ({"labels": torch.zeros(4), "input_ids": text(4)}, (4, 64)),
        ([torch.zeros(4, 3)], (4, 0)),
        (torch.tensor(1.0), (0, 0)),
        ({"nested": {"x": torch.zeros(3, 2)}}, (3, 0)),
        (None, (0, 0)),
        ([], (0, 0)),
    ],
)
def test_counting(batch: Any, expected: tuple[int, int]) -> None:
    assert count(batch) == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.data())
def test_a_range_is_the_sum_of_its_batches(sizes: list[int], data: st.DataObject) -> None:
    contents = BatchContents()
    for index, size in enumerate(sizes):
        contents.note(index, text(size, 2))
    first = data.draw(st.integers(0, len(sizes) - 1))
    last = data.draw(st.integers(first, len(sizes) - 1))
    expected = Extent(
        sum(sizes[:first]), sum(sizes[first : last + 1]), 2 * sum(sizes[:first]), 2 * sum(sizes[first : last + 1])
    )
    assert contents.between(first, last) == expected
    assert contents.between(0, len(sizes)) is None


def test_going_back_goes_on_counting_from_there() -> None:
    contents = BatchContents()
    contents.note(0, text(8))
    state = contents.state()
    contents.note(1, text(8))
    contents.load(state, 1)
    contents.note(1, text(4))
    assert contents.between(1, 1) == Extent(8, 4, 128, 64)


def test_a_checkpoint_that_does_not_tell_leaves_it_unknown() -> None:
    contents = BatchContents()
    contents.load({}, 3)
    contents.note(3, text(8))
    assert contents.between(3, 3) == Extent(None, 8, None, 128)


def lineage_with(*bad: BadBatches) -> Lineage:
    lineage = Lineage(None)
    for each in bad:
        lineage.skip(each)
    return lineage


@pytest.mark.parametrize(
    ("index", "extent", "expected"),
    [
        (7, None, True),
        (6, None, False),
        (14, Extent(56, 4, None, 0), True),  # batches of half the size: the same samples have another number
        (7, Extent(28, 4, None, 0), False),
        (20, Extent(80, 4, None, 0, ("a", "b")), True),
        (20, Extent(80, 4, None, 0, ("a", "z")), False),
        (7, Extent(None, 8, None, 0), True),
    ],
)
def test_what_is_left_out(index: int, extent: Extent | None, expected: bool) -> None:
    lineage = lineage_with(BadBatches(7, 7, 56, 63, sample_ids=["a", "b", 3]))
    assert lineage.is_skipped(index, extent) is expected


def test_what_was_taken_back_is_not_left_out() -> None:
    bad = BadBatches(7, 7, sample_ids=["a"])
    lineage = lineage_with(bad)
    lineage.forget(bad)
    assert not lineage.is_skipped(7, Extent(0, 1, None, 0, ("a",)))


def test_the_ledger_has_ids_steps_and_reason_and_is_obeyed_after_a_restart(tmp_path: Path) -> None:
    watch = FakeWatch()
    batches = [(torch.full((8, 4), float(number)), torch.zeros(8, 1)) for number in range(40)]
    training = Training(tmp_path, watch, loader=batches, sample_ids=lambda batch: [f"doc-{int(batch[0][0, 0])}"])
    training.steps(8)
    act(watch, training, SkipRange(6), Rollback(checkpoint_at(watch, 5), 5))
    training.steps(6)
    training.run.finish()
    (bad,) = read_bad_batches(tmp_path, "run")[0]
    assert (bad.first, bad.last, bad.first_step, bad.last_step) == (6, 8, 7, 9)
    assert (bad.first_sample, bad.last_sample, bad.sample_ids) == (48, 71, ["doc-6", "doc-7", "doc-8"])
    assert (bad.action, bad.reason) == ("action-1", "incident-1")
    later = Training(tmp_path, None, loader=batches, resume=True)
    later.steps(3)
    seen = [int(inputs[0, 0]) for inputs in (*training.seen[9:], *later.seen)]
    assert not {6, 7, 8} & set(seen)


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoBadBatches, match="no checkpoints of a run named 'night'"):
        read_bad_batches(tmp_path, "night")
