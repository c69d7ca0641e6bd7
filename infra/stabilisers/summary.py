"""From trials to the numbers of a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from holter.infra.bench.figures import Figure
from holter.infra.stabilisers.arms import ARMS, GRADIENT_CLIPPERS
from holter.infra.stabilisers.ordering import REMEDIES, Recovery, RecoveryResult, Remedy
from holter.infra.stabilisers.setting import FaultName
from holter.infra.stabilisers.trial import Trial, TrialResult

TOLERANCE = 0.01
"""In nats: what is smaller is no difference here. By as much a gradient clipper's final loss may be off its own clean
run's after gradients ×1000, and Clippy's or rollback's above the best after a burst of the learning rate."""


class Spread(NamedTuple):
    """Mean and standard deviation over seeds; infinite where a run of them was lost."""

    mean: float
    deviation: float
    num_seeds: int


Key = tuple[str, FaultName, float]


def spread(values: Iterable[float | None]) -> Spread:
    """
    >>> spread([1.0, 3.0, None]).mean
    inf
    """
    known = [math.inf if value is None else value for value in values]
    if not all(map(math.isfinite, known)):
        return Spread(math.inf, math.nan, len(known))
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else math.nan, len(known))


def losses(trials: Mapping[Trial, TrialResult]) -> dict[Key, Spread]:
    by_key: dict[Key, list[float | None]] = {}
    for trial, result in trials.items():
        by_key.setdefault((trial.arm, trial.fault, trial.beta2), []).append(result.loss)
    return {key: spread(values) for key, values in by_key.items()}


def cost_of(trials: Mapping[Trial, TrialResult], arm: str, fault: FaultName, beta2: float) -> Spread | None:
    """Final loss above the same arm's own clean run of the same seed."""
    differences = []
    for trial, result in trials.items():
        clean = trials.get(trial._replace(fault="clean"))
        if (trial.arm, trial.fault, trial.beta2) == (arm, fault, beta2) and clean is not None:
            known = result.loss is not None and clean.loss is not None
            differences.append(result.loss - clean.loss if known else None)  # type: ignore[operator]
    return spread(differences) if differences else None


def recovery_steps(trials: Mapping[Trial, TrialResult], arm: str, beta2: float) -> tuple[float | None, int]:
    """Mean over the seeds that came back, and how many did not."""
    known = [each.recovery_steps for trial, each in trials.items() if trial[:3] == (arm, "lr", beta2)]
    back = [steps for steps in known if steps is not None]
    return (statistics.fmean(back) if back else None), len(known) - len(back)


def figures(trials: Mapping[Trial, TrialResult]) -> list[Figure]:
    """What has a target: gradients ×1000 under β2 .999, and who stands a burst of the learning rate best."""
    found = []
    for arm in ("none", *GRADIENT_CLIPPERS):
        cost = cost_of(trials, arm, "gradient", 0.999)
        if cost is not None:
            target = None if arm == "none" else TOLERANCE
            error = f" ± {cost.deviation:.4f}" if cost.num_seeds > 1 else ""
            note = f"{cost.mean:+.4f}{error}, mean and deviation of {cost.num_seeds} seeds"
            found.append(Figure(f"gradient_x1000_cost_{arm}", abs(cost.mean), "nats", target, note=note))
    return found + _after_lr_burst(trials)


def _after_lr_burst(trials: Mapping[Trial, TrialResult]) -> list[Figure]:
    """By how much the better of Clippy and rollback ends above the best arm, over the seeds that all have."""
    ended = {trial: result for trial, result in trials.items() if (trial.fault, trial.beta2) == ("lr", 0.95)}
    shared = set[int].intersection(*(_seeds(ended, arm) for arm in {trial.arm for trial in ended})) if ended else set()
    of_shared = {trial: result for trial, result in ended.items() if trial.seed in shared}
    means = {key[0]: value.mean for key, value in losses(of_shared).items()}
    ranked = sorted(means, key=means.__getitem__)
    named = [means[arm] for arm in ("clippy", "rollback") if arm in means]
    if not named or not math.isfinite(means[ranked[0]]):
        return []
    note = "below it no difference shows; best first: " + ", ".join(ARMS[arm].label for arm in ranked[:4])
    above = min(named) - means[ranked[0]]
    return [Figure("lr_burst_clippy_or_rollback_above_best", above, "nats", TOLERANCE, note=note)]


def _seeds(trials: Iterable[Trial], arm: str) -> set[int]:
    return {trial.seed for trial in trials if trial.arm == arm}


class RemedySummary(NamedTuple):
    loss: Spread
    jump: Spread
    loss_after: Spread


def remedies(recoveries: Mapping[Recovery, RecoveryResult]) -> dict[Remedy, RemedySummary]:
    """Each spread is over seeds; a seed's jump is the mean of its losses of a stage."""
    found: dict[Remedy, RemedySummary] = {}
    for remedy in REMEDIES:
        results = [result for recovery, result in recoveries.items() if recovery.remedy == remedy]
        if results:
            found[remedy] = RemedySummary(
                spread(each.loss for each in results),
                spread(statistics.fmean(each.jumps) for each in results),
                spread(each.train_loss_after for each in results),
            )
    return found


def ordering_verdict(found: Mapping[Remedy, RemedySummary]) -> str:
    """Whether the published order of the remedies shows in the losses after a stage was lost.

    It shows where each is above the next by more than their standard errors together; anything else is a no.
    """
    published: tuple[Remedy, ...] = ("random", "copy", "average", "weighted")
    if any(remedy not in found or found[remedy].loss_after.num_seeds < 2 for remedy in published):
        return "not decided: too few seeds"
    pairs = list(pairwise(published))
    clear = [pair for pair in pairs if _is_above(found[pair[0]].loss_after, found[pair[1]].loss_after)]
    if len(clear) == len(pairs):
        return "shows: random > copy > average > weighted"
    missing = ", ".join(f"{worse} > {better}" for worse, better in pairs if (worse, better) not in clear)
    means: dict[str, float] = {remedy: found[remedy].loss_after.mean for remedy in published}
    seen = " < ".join(sorted(published, key=lambda remedy: means[remedy]))
    return f"does not show at this scale (not above the noise: {missing}); measured, best first: {seen}"


def _is_above(one: Spread, other: Spread) -> bool:
    error = math.hypot(one.deviation, other.deviation) / math.sqrt(min(one.num_seeds, other.num_seeds))
    return one.mean - other.mean > error
