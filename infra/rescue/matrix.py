"""Runs the arms in worker processes: first the prefixes, then what forks from them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from holter.infra.rescue.arm import CLIPPED, HEALTHY, ROLLBACK_ONLY, SHADOW, Arm, ArmResult, run_arm
from holter.infra.rescue.faults import FAULTS
from holter.infra.rescue.lockstep import Pace
from holter.infra.rescue.prefix import Plan, make_prefix
from holter.infra.rescue.ranks import prepare_process
from holter.infra.rescue.results import Results
from holter.infra.rescue.workload import WorkloadName

POLICIES = (SHADOW, "cautious", "report", "expected-cost")
STEPS_AFTER = 300
CURED_IN_PLACE = "gradient-burst"
"""What clipping prevents, and a moment reset cures without going back."""


@dataclass(frozen=True)
class Matrix:
    """Every fault under every policy for every seed, and the same workloads unhurt.

    ``treats_healthy`` runs the unhurt ones under every policy; without it only as twins, in shadow.
    """

    faults: tuple[str, ...] = tuple(FAULTS)
    policies: tuple[str, ...] = POLICIES
    seeds: tuple[int, ...] = (1, 2, 3)
    steps_after: int = STEPS_AFTER
    treats_healthy: bool = True
    measures_formula: bool = True
    """Whether there are the twins that the report's formula compares with."""

    def arms(self) -> list[Arm]:
        hurt = [
            Arm(self._plan(FAULTS[fault].workload, seed), fault, policy)
            for fault in self.faults
            for seed in self.seeds
            for policy in self.policies
        ]
        healthy = [
            Arm(self._plan(workload, seed), HEALTHY, policy)
            for workload in sorted({FAULTS[fault].workload for fault in self.faults})
            for seed in self.seeds
            for policy in (self.policies if self.treats_healthy else (SHADOW,))
        ]
        twins = [
            Arm(self._plan(FAULTS[CURED_IN_PLACE].workload, seed), CURED_IN_PLACE, policy)
            for seed in self.seeds
            for policy in (CLIPPED, ROLLBACK_ONLY)
            if self.measures_formula and CURED_IN_PLACE in self.faults
        ]
        return [*healthy, *hurt, *twins]

    def _plan(self, workload: WorkloadName, seed: int) -> Plan:
        return Plan(workload, seed, self.steps_after)


class ArmsFailed(Exception):
    """Some arms ended with an error; the message names them."""


def run(
    matrix: Matrix, results: Results, pace: Pace, num_jobs: int, on_done: Callable[[Arm, ArmResult], None]
) -> list[ArmResult]:
    """All results, those of earlier runs included; ``on_done`` is told of each as it is there.

    Raises:
        ArmsFailed: after all others were run.
    """
    found = {arm: results.load(arm) for arm in matrix.arms()}
    for arm, result in found.items():
        if result is not None:
            on_done(arm, result)
    missing = [arm for arm, result in found.items() if result is None]
    failures: list[str] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=num_jobs, mp_context=context, initializer=prepare_process) as pool:
        plans = sorted({arm.plan for arm in missing}, key=lambda plan: plan.name)
        failures += _finish({pool.submit(make_prefix, plan, results.prefix(plan), pace): plan.name for plan in plans})
        running = {pool.submit(_run_and_save, arm, results, pace): arm for arm in missing}
        for future in as_completed(running):
            failures += _finish({future: running[future].name})
            if future.exception() is None:
                found[running[future]] = future.result()
                on_done(running[future], future.result())
    if failures:
        raise ArmsFailed("; ".join(failures[:5]))
    return [result for result in found.values() if result is not None]


def _run_and_save(arm: Arm, results: Results, pace: Pace) -> ArmResult:
    result = run_arm(arm, results.prefix(arm.plan), pace)
    results.save(result)
    return result


def _finish(futures: Mapping[Future[Any], str]) -> Sequence[str]:
    """Waits for all; what failed, and why."""
    return [f"{futures[each]}: {each.exception()!r}" for each in as_completed(futures) if each.exception() is not None]
