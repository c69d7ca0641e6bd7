"""Pipelines of real processes of which one is killed: no checkpoint, and the loss goes on falling."""

from __future__ import annotations

import statistics

import pytest

from holter.producers.examples.checkfree.__main__ import run
from holter.producers.examples.checkfree.training import Settings
from holter.producers.torch.checkfree import Unrecoverable

pytestmark = [pytest.mark.torch, pytest.mark.services, pytest.mark.timeout(480)]
NUM_STEPS = 120


@pytest.mark.parametrize(("num_stages", "killed"), [(4, 2), (5, 0)])
def test_training_goes_on_after_a_stage_was_killed(num_stages: int, killed: int) -> None:
    losses = run(Settings(num_stages=num_stages, num_steps=NUM_STEPS, width=32, num_blocks=1, kill=(killed, 50)))
    assert len(losses) == NUM_STEPS
    begun, before, after = (statistics.fmean(losses[at : at + 20]) for at in (0, 30, 100))
    assert before < begun
    assert after < before
    jump = statistics.fmean(losses[50:55])
    assert jump < begun  # what was learnt is not lost


def test_an_end_stage_that_nobody_can_copy_ends_the_training() -> None:
    with pytest.raises(Unrecoverable, match="one neighbour only"):
        run(Settings(num_steps=20, width=16, num_blocks=1, swaps=False, kill=(3, 5)))
