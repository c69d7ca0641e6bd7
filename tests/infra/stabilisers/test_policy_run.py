from __future__ import annotations

import random

from holter.infra.stabilisers.policy_run import ByPolicy
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, UPDATE_NORM

_SNAPSHOT_EVERY = 25


def run_until(policy: ByPolicy, first: int, last: int, factor: float = 1.0) -> dict[int, int]:
    """Steps of a falling loss, the update norm ``factor`` times its own; where it wanted to go back, and to what."""
    noise = random.Random(first)
    wanted = {}
    for step in range(first, last + 1):
        if (step - 1) % _SNAPSHOT_EVERY == 0:
            policy.kept(step - 1)
        loss = 4.0 - 0.005 * step + noise.gauss(0.0, 0.02) + (1.5 if factor > 1.0 else 0.0)
        norms = {GRAD_NORM: noise.lognormvariate(0.0, 0.1), UPDATE_NORM: factor * noise.lognormvariate(-2.0, 0.1)}
        target = policy.target(step, {LOSS: loss, LEARNING_RATE: 1e-3, **norms})
        if target is not None:
            wanted[step] = target
            break
    return wanted


def test_a_calm_run_never_goes_back() -> None:
    assert run_until(ByPolicy(), 1, 200) == {}


def test_updates_that_carry_the_weights_away_are_gone_back_from_to_a_healthy_snapshot() -> None:
    policy = ByPolicy()
    assert run_until(policy, 1, 120) == {}
    ((step, target),) = run_until(policy, 121, 160, factor=30.0).items()
    assert step > 120
    assert target in (75, 100)


def test_after_going_back_the_run_is_judged_on() -> None:
    policy = ByPolicy()
    run_until(policy, 1, 120)
    ((step, target),) = run_until(policy, 121, 160, factor=30.0).items()
    policy.went_back(step, target)
    assert run_until(policy, target + 1, target + 90) == {}
    assert run_until(policy, target + 91, target + 130, factor=30.0)
