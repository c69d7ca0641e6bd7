"""Ranks that answer late, never, or leave: what is decided is the same for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from torch import distributed

from holter.producers.torch.agreement import Agreement
from holter.producers.torch.ballots import Ballot, vote
from holter.producers.torch.ranks import Apart, Ranks, Word

pytestmark = pytest.mark.torch
PATIENCE_SECONDS = 0.02
"""Where somebody is late; where nobody is meant to be, a busy machine makes no difference."""


class Job:
    """Ranks as threads over one store."""

    def __init__(self, num_ranks: int, patience_seconds: float = 20.0) -> None:
        store = distributed.HashStore()
        self.said: list[list[str]] = [[] for _ in range(num_ranks)]
        self.ranks = [
            Agreement(rank, num_ranks, store, patience_seconds, self.said[rank].append) for rank in range(num_ranks)
        ]

    def all_do(self, what: Callable[[int, Agreement], Any]) -> list[Any]:
        results: list[Any] = [None] * len(self.ranks)

        def run(rank: int) -> None:
            results[rank] = what(rank, self.ranks[rank])

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(self.ranks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        return results


@pytest.mark.parametrize("num_ranks", [2, 5])
def test_everyone_hears_everyone(num_ranks: int) -> None:
    job = Job(num_ranks)
    for number in range(3):
        heard = job.all_do(lambda rank, agreement, n=number: agreement.gather(f"{n} {rank}".encode()))  # type: ignore[misc]
        assert heard == [[f"{number} {rank}".encode() for rank in range(num_ranks)]] * num_ranks
    assert all(agreement.is_armed for agreement in job.ranks)


@pytest.mark.parametrize("late_rank", [0, 1, 2])
@pytest.mark.parametrize("late_by", [0.5, 1.0, 2.0, 3.0, 4.0, 8.0])
def test_however_late_one_is_all_hear_the_same(late_rank: int, late_by: float) -> None:
    job = Job(3, PATIENCE_SECONDS)

    def say(rank: int, agreement: Agreement) -> list[bytes] | None:
        if rank == late_rank:
            time.sleep(late_by * PATIENCE_SECONDS)
        return agreement.gather(str(rank).encode())

    heard = job.all_do(say)
    assert heard in ([[b"0", b"1", b"2"]] * 3, [None] * 3)
    assert {agreement.is_armed for agreement in job.ranks} == {heard[0] is not None}
    assert [len(lines) for lines in job.said] == [int(heard[0] is None)] * 3


def test_nobody_waits_for_a_rank_that_left() -> None:
    job = Job(3)
    job.ranks[2].leave()
    assert job.all_do(lambda rank, agreement: agreement.gather(b"", patience=10_000.0)) == [None] * 3
    assert [len(lines) for lines in job.said] == [1, 1, 0]


def test_the_first_objection_holds_for_all_and_the_lead_chooses() -> None:
    job = Job(3)
    ballots = [Ballot(groups=(1,)), Ballot("no room"), Ballot("no file", "c-5")]
    results = job.all_do(lambda rank, agreement: vote(agreement, ballots[rank]))
    assert {(each.objection, each.lead) for each in results} == {(ballots[1], ballots[0])}
    agreed = job.all_do(lambda rank, agreement: vote(agreement, Ballot(groups=(rank,))))
    assert {(each.objection, each.lead) for each in agreed} == {(None, Ballot(groups=(0,)))}


def test_without_agreement_every_vote_is_an_objection() -> None:
    objection = vote(Apart(1, 2), Ballot()).objection
    assert objection is not None
    assert "do not agree" in objection.reason
    assert Apart(1, 2).poll(lambda: Word(1, 1)) == Word()


def test_alone_is_heard_at_once() -> None:
    assert Ranks().poll(lambda: Word(1, 0, 5, 6)) == Word(1, 0, 5, 6)
    assert vote(Ranks(), Ballot()).objection is None
