"""What the arms show: who was damaged, who was rescued, at what cost.

A run is *damaged* where the fault, left alone, ends it more than .05 nats above its unhurt twin, or lost. It is *lost*
where its loss is not finite, or where it has given back half of all that it had learned. Gaps that are smaller for
every seed of a fault are judged on their mean, as one run. *Rescued* means that at the same number of executed steps
at least 80 % of the gap is closed; of a loss that is not finite, that the run is not damaged.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from holter.infra.rescue.arm import CLIPPED, HEALTHY, ROLLBACK_ONLY, SHADOW, ArmResult
from holter.infra.rescue.curve import Curve

DAMAGED_NATS = 0.05
WORSE_NATS = 0.02
RESCUED_SHARE = 0.8


@dataclass(frozen=True)
class Case:
    """One fault and seed (or an unhurt run) under all policies. Losses are in nats, infinite where not finite."""

    fault: str
    seed: int
    twin: ArmResult
    arms: dict[str, ArmResult]
    curve: Curve
    """Of the unhurt twin, from the beginning of the run."""

    def loss(self, policy: str) -> float:
        return final_loss(self.arms[policy])

    def gap(self, policy: str) -> float:
        """Above the unhurt twin."""
        return self.loss(policy) - final_loss(self.twin)

    def is_lost(self, policy: str) -> bool:
        start, forked = self.curve.first_loss, self.curve.loss_at_fork
        return not self.loss(policy) < forked + 0.5 * (start - forked)

    def is_damaged(self, policy: str) -> bool:
        return self.gap(policy) > DAMAGED_NATS or self.is_lost(policy)

    def is_rescued(self, policy: str) -> bool:
        shadow = self.gap(SHADOW)
        if not math.isfinite(shadow):
            return not self.is_damaged(policy)
        return self.gap(policy) <= (1.0 - RESCUED_SHARE) * shadow

    def regret_steps(self, policy: str) -> float:
        """Steps that the unhurt twin needs from this arm's loss to the best arm's, and those that were lost."""
        best = min(self.loss(each) for each in self.arms if each not in (CLIPPED, ROLLBACK_ONLY))
        behind = self.curve.steps_to(best) - self.curve.steps_to(self.loss(policy))
        return max(0.0, behind) + self.arms[policy].steps_lost

    def is_needless(self, policy: str) -> bool:
        return self.arms[policy].num_applied > 0 and self.loss(policy) >= self.loss(SHADOW)

    def is_worse_than_shadow(self, policy: str) -> bool:
        return self.loss(policy) > self.loss(SHADOW) + WORSE_NATS


@dataclass
class Score:
    """Of one policy. Rates are fractions of all runs, unhurt ones included; regret is the mean over the hurt ones."""

    damaged_in_shadow: int = 0
    rescued: int = 0
    lost_in_shadow: int = 0
    rescued_lost: int = 0
    harmed_healthy: int = 0
    needless_action_rate: float = 0.0
    worse_than_shadow_rate: float = 0.0
    regret_seconds: float = 0.0
    mean_gap_nats: float | None = None
    steps_lost: float = 0.0
    actions: float = 0.0
    steps_to_applied: list[int] = field(default_factory=list)
    rpo_steps: list[int] = field(default_factory=list)


def cases(results: Iterable[ArmResult], curve_of: Callable[[ArmResult], Curve]) -> list[Case]:
    """Groups arms; a case without a twin or without its shadow is left out."""
    grouped: dict[tuple[str, str], dict[str, ArmResult]] = defaultdict(dict)
    for result in results:
        grouped[result.arm.fault, result.arm.plan.name][result.arm.policy] = result
    found = []
    for (fault, plan_name), arms in grouped.items():
        twin = grouped.get((HEALTHY, plan_name), {}).get(SHADOW)
        if twin is not None and SHADOW in arms:
            found.append(Case(fault, twin.arm.plan.seed, twin, arms, curve_of(twin)))
    return found


def score(all_cases: Sequence[Case], policy: str, step_seconds: float) -> Score:
    """Raises ValueError where there is nothing to judge."""
    ran = [case for case in all_cases if policy in case.arms]
    if not ran:
        raise ValueError(f"no run of {policy}")
    hurt = [case for case in ran if case.fault != HEALTHY]
    said = Score()
    for fault in {case.fault for case in hurt}:
        _count_rescues(said, [case for case in hurt if case.fault == fault], policy)
    said.harmed_healthy = sum(case.fault == HEALTHY and not case.gap(policy) <= WORSE_NATS for case in ran)
    said.needless_action_rate = sum(case.is_needless(policy) for case in ran) / len(ran)
    said.worse_than_shadow_rate = sum(case.is_worse_than_shadow(policy) for case in ran) / len(ran)
    if hurt:
        _add_means(said, hurt, policy, step_seconds)
    return said


def _add_means(said: Score, hurt: Sequence[Case], policy: str, step_seconds: float) -> None:
    arms = [case.arms[policy] for case in hurt]
    said.regret_seconds = step_seconds * sum(case.regret_steps(policy) for case in hurt) / len(hurt)
    gaps = [case.gap(policy) for case in hurt if math.isfinite(case.gap(policy))]
    said.mean_gap_nats = sum(gaps) / len(gaps) if gaps else None
    said.steps_lost = sum(arm.steps_lost for arm in arms) / len(arms)
    said.actions = sum(arm.num_applied for arm in arms) / len(arms)
    said.steps_to_applied = [
        arm.first_applied - arm.fault_executed - 1
        for arm in arms
        if arm.first_applied is not None and arm.fault_executed is not None
    ]
    said.rpo_steps = [each.rpo_steps for arm in arms for each in arm.treatments if each.rpo_steps is not None]


def _count_rescues(said: Score, of_fault: Sequence[Case], policy: str) -> None:
    damaged = [case for case in of_fault if case.is_damaged(SHADOW)]
    if not damaged:
        _count_small(said, of_fault, policy)
    for case in damaged:
        is_rescued, was_lost = case.is_rescued(policy), case.is_lost(SHADOW)
        said.damaged_in_shadow += 1
        said.rescued += is_rescued
        said.lost_in_shadow += was_lost
        said.rescued_lost += was_lost and is_rescued


def _count_small(said: Score, of_fault: Sequence[Case], policy: str) -> None:
    """Gaps too small to judge one by one: their mean counts as one run where it is more than the harm allowed."""
    gap = sum(case.gap(SHADOW) for case in of_fault) / len(of_fault)
    if gap > WORSE_NATS:
        left = sum(case.gap(policy) for case in of_fault) / len(of_fault)
        said.damaged_in_shadow += 1
        said.rescued += left <= (1.0 - RESCUED_SHARE) * gap


def final_loss(result: ArmResult) -> float:
    return math.inf if result.final_loss is None else result.final_loss
