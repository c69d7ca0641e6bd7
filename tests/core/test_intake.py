"""What is new: against a plain set of the seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.core.intake import MAX_GAPS, Intake, SeqTracker
from holter.schemas import codec
from tests.telemetry import Trainer


@given(order=st.permutations(range(14)), again=st.lists(st.integers(0, 13), max_size=10))
def test_every_seq_is_new_once_in_any_order(order: list[int], again: list[int]) -> None:
    tracker = SeqTracker("s")
    seen: set[int] = set()
    for seq in [*order, *again]:
        assert tracker.is_new(seq) == (seq not in seen)
        seen.add(seq)
    assert tracker.num_missing == 0
    assert tracker.gaps == []


@given(seqs=st.lists(st.integers(0, 400), max_size=200))
def test_gaps_are_counted_and_bounded(seqs: list[int]) -> None:
    tracker = SeqTracker("s")
    for seq in seqs:
        tracker.is_new(seq)
    assert len(tracker.gaps) <= MAX_GAPS
    assert all(low <= high < tracker.next for low, high in tracker.gaps)


def test_a_later_attempt_counts_anew_and_an_older_one_is_fenced() -> None:
    intake = Intake()
    trainer = Trainer()
    first = codec.telemetry.decode(trainer.steps([{"train/loss": 1.0}]))
    trainer.go_back(0)
    second = codec.telemetry.decode(trainer.steps([{"train/loss": 1.0}]))
    assert intake.accept(first)
    assert intake.accept(second)
    assert not intake.accept(first)
    assert intake.state.num_stale == 1


def test_values_over_all_ranks_are_judged_rather_than_one_rank_s() -> None:
    intake = Intake()
    one, over_all = Trainer(rank=0), Trainer(rank=-1)
    assert intake.accept(codec.telemetry.decode(one.steps([{"train/loss": 1.0}])))
    assert intake.advances(0, 0)
    assert intake.accept(codec.telemetry.decode(over_all.steps([{"train/loss": 1.0}])))
    assert not intake.advances(0, 1)
    assert intake.advances(-1, 1)
    assert not intake.advances(-1, 1)
