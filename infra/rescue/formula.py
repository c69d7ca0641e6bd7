"""The design report's formula: prevention + intervention − dependence on checkpoints, each measured against a twin."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from msgspec import Struct

from holter.infra.rescue.arm import CLIPPED, HEALTHY, ROLLBACK_ONLY, SHADOW
from holter.infra.rescue.score import Case
from holter.infra.rescue.training import CHECKPOINT_EVERY

_POLICY = "expected-cost"


class Formula(Struct, frozen=True):
    """None where the matrix has no runs for it."""

    num_spikes: int
    num_spikes_prevented: int | None
    """Runs damaged by exploding gradients, and how many of them gradient clipping alone keeps from it."""
    steps_saved: float | None
    """By a cure in place, against a twin that can only go back: lost steps, and those behind in loss; mean of runs."""
    checkpoint_overhead: float | None
    """Share of a step's time that saving every 20 steps takes on this machine."""


def measure(cases: Sequence[Case]) -> Formula:
    exploded = [case for case in cases if CLIPPED in case.arms and case.is_damaged(SHADOW)]
    prevented = sum(not case.is_damaged(CLIPPED) for case in exploded)
    saved = [
        case.regret_steps(ROLLBACK_ONLY) - case.regret_steps(_POLICY)
        for case in cases
        if {ROLLBACK_ONLY, _POLICY} <= case.arms.keys() and case.arms[_POLICY].steps_lost == 0
    ]
    overheads = [
        arm.save_seconds / (CHECKPOINT_EVERY * arm.step_seconds)
        for case in cases
        if case.fault == HEALTHY
        for arm in case.arms.values()
    ]
    return Formula(
        len(exploded),
        prevented if exploded else None,
        mean(saved) if saved else None,
        mean(overheads) if overheads else None,
    )
