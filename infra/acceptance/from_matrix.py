"""The figures that the rescue matrix holds: its runs are labelled, since it is known which were hurt, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holter.infra.bench.figures import Figure
from holter.infra.rescue.arm import HEALTHY, SHADOW, ArmResult
from holter.infra.rescue.score import Case, score

POLICY = "expected-cost"
SEEN_WITHIN_STEPS = 50


def from_matrix(cases: Sequence[Case], step_seconds: float) -> list[Figure]:
    shadows = [case.arms[SHADOW] for case in cases]
    said = score(cases, POLICY, step_seconds)
    share = said.rescued / said.damaged_in_shadow if said.damaged_in_shadow else 0.0
    rpo = max(said.rpo_steps, default=0)
    return [
        accuracy(shadows),
        false_alarms(shadows),
        Figure(
            "recovery_success",
            100.0 * share,
            "%",
            80.0,
            "higher",
            f"{said.rescued} of {said.damaged_in_shadow} damaged runs end with 80 % of the gap closed ({POLICY})",
        ),
        Figure("rpo_steps", float(rpo), "steps", 99.0, note="the most from the step gone back to, to the onset"),
    ]


def accuracy(shadows: Sequence[ArmResult]) -> Figure:
    """Of runs: hurt ones in which something opens within 50 steps of the fault, unhurt ones in which nothing does."""
    hurt = [arm for arm in shadows if arm.arm.fault != HEALTHY]
    unhurt = [arm for arm in shadows if arm.arm.fault == HEALTHY]
    num_seen = sum(_is_seen(arm) for arm in hurt)
    num_calm = sum(arm.num_incidents == 0 for arm in unhurt)
    note = f"{num_seen} of {len(hurt)} hurt runs seen, {num_calm} of {len(unhurt)} unhurt ones left in peace"
    value = 100.0 * (num_seen + num_calm) / max(1, len(shadows))
    return Figure("detection_accuracy", value, "%", 90.0, "higher", note)


def false_alarms(shadows: Sequence[ArmResult]) -> Figure:
    """The share of incidents that opened where nothing was wrong; a share of steps would say nothing."""
    num_false = sum(_num_false(arm) for arm in shadows)
    num_incidents = sum(arm.num_incidents for arm in shadows)
    clean_steps = sum(_clean_steps(shadows))
    per_10k = 10_000 * num_false / max(1, clean_steps)
    note = f"{num_false} of {num_incidents} incidents; {per_10k:.2f} per 10,000 of {clean_steps:,} clean steps"
    return Figure("false_alarm_rate", 100.0 * num_false / max(1, num_incidents), "%", 5.0, note=note)


def _is_seen(arm: ArmResult) -> bool:
    if arm.first_signal is None or arm.fault_executed is None:
        return False
    return arm.first_signal - arm.fault_executed <= SEEN_WITHIN_STEPS


def _num_false(arm: ArmResult) -> int:
    return arm.num_incidents if arm.arm.fault == HEALTHY else arm.num_incidents_before


def _clean_steps(shadows: Iterable[ArmResult]) -> Iterable[int]:
    for arm in shadows:
        yield arm.arm.plan.arm_steps if arm.fault_executed is None else arm.fault_executed
