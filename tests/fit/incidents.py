"""Made-up incidents whose probability of healing is known."""

from __future__ import annotations

import random

from holter.pipeline.core.recovery import RecoveryFeatures, RecoveryWeights, estimate
from holter.pipeline.fit.incidents import ClosedIncident


def some_features(chance: random.Random) -> dict[str, float]:
    """Every feature moves, independently of the others; what is not named here is a flag or a share."""
    log_base_grad = chance.uniform(-1.0, 4.0)
    named = {
        "num_healed": chance.randrange(3),
        "num_non_finite_grads": chance.randrange(4),
        "log_grad": log_base_grad + chance.uniform(-1.0, 4.5),
        "log_base_grad": log_base_grad,
        "log_least_grad": log_base_grad + chance.uniform(-1.0, 4.0),
        "log_lowest_grad": log_base_grad - chance.uniform(0.0, 2.0),
        "num_records": chance.randrange(1, 21),
        "num_before": chance.randrange(400),
        "risen": chance.uniform(-1.0, 1.0),
        "still_above": chance.uniform(0.0, 2.0),
    }
    flags = {name: chance.random() < 0.12 for name in RecoveryFeatures._fields if name.startswith("is_")}
    shares = {name: chance.random() for name in RecoveryFeatures._fields}
    known = {**shares, **flags, "loss_non_finite": chance.random() < 0.12, **named}
    return {name: float(value) for name, value in known.items()}


def made_incidents(weights: RecoveryWeights, num: int, seed: int = 3, num_groups: int = 8) -> list[ClosedIncident]:
    """Each heals with the probability that these weights say."""
    chance = random.Random(seed)
    incidents = []
    for number in range(num):
        features = some_features(chance)
        p_recover = estimate(RecoveryFeatures(**features), weights).p_recover  # type: ignore[arg-type]
        incidents.append(ClosedIncident(f"run-{number % num_groups}", chance.random() < p_recover, [features]))
    return incidents
