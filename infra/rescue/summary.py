"""The matrix as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from holter.infra.rescue.arm import HEALTHY
from holter.infra.rescue.faults import FAULTS
from holter.infra.rescue.formula import measure
from holter.infra.rescue.score import Case, Score, score


def summary(cases: Sequence[Case], policies: Sequence[str], step_seconds: float) -> dict[str, Any]:
    """Rates are fractions, regret a mean, the rest counts; what is not finite is None."""
    hurt = sorted({case.fault for case in cases} - {HEALTHY}, key=list(FAULTS).index)
    return {
        "policies": {name: _scores(score(cases, name, step_seconds)) for name in policies},
        "faults": [_fault(name, [case for case in cases if case.fault == name], policies) for name in hurt],
        "formula": to_builtins(measure(cases)),
    }


def _scores(said: Score) -> dict[str, Any]:
    return {
        "damaged_in_shadow": said.damaged_in_shadow,
        "rescued": said.rescued,
        "lost_in_shadow": said.lost_in_shadow,
        "rescued_lost": said.rescued_lost,
        "harmed_healthy": said.harmed_healthy,
        "needless_action_rate": said.needless_action_rate,
        "worse_than_shadow_rate": said.worse_than_shadow_rate,
        "regret_seconds": said.regret_seconds,
        "mean_gap_nats": said.mean_gap_nats,
        "steps_lost": said.steps_lost,
        "actions": said.actions,
        "steps_to_applied": said.steps_to_applied,
        "rpo_steps": said.rpo_steps,
    }


def _fault(name: str, cases: Sequence[Case], policies: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "bound_to": FAULTS[name].bound,
        "workload": FAULTS[name].workload,
        "policies": {policy: [_run(case, policy) for case in cases if policy in case.arms] for policy in policies},
    }


def _run(case: Case, policy: str) -> dict[str, Any]:
    arm = case.arms[policy]
    return {
        "seed": case.seed,
        "final_loss": _finite(case.loss(policy)),
        "gap_nats": _finite(case.gap(policy)),
        "lost": case.is_lost(policy),
        "damaged": case.is_damaged(policy),
        "rescued": case.is_rescued(policy),
        "steps_lost": arm.steps_lost,
        "actions": [{"effects": each.effects, "status": each.status} for each in arm.treatments],
        "steps_to_applied": arm.first_applied - arm.fault_executed - 1
        if arm.first_applied is not None and arm.fault_executed is not None
        else None,
        "regret_steps": round(case.regret_steps(policy), 1),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
