"""The matrix as two tables: what every fault did under every policy, and what each policy is worth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import mean

from rich.table import Table

from holter.infra.rescue.arm import HEALTHY, SHADOW
from holter.infra.rescue.faults import FAULTS
from holter.infra.rescue.formula import Formula
from holter.infra.rescue.score import Case, Score

_NAMES = {"lr_factor": "cut LR", "momentum_reset": "reset", "rollback": "go back", "skip_range": "skip"}


def fault_table(cases: Sequence[Case], policies: Sequence[str]) -> Table:
    """A row a fault and policy; losses and steps are means over the seeds."""
    shown = Table(title="At the same number of executed steps, mean over seeds", title_justify="left")
    for name in ("fault", "bound to", "policy"):
        shown.add_column(name, no_wrap=True)
    for name in ("final loss", "above unhurt", "damaged", "rescued", "steps lost", "applied after", "regret"):
        shown.add_column(name, justify="right")
    shown.add_column("actions (all seeds)")
    names = [*(name for name in FAULTS if any(case.fault == name for case in cases)), HEALTHY]
    for name in names:
        of_fault = [case for case in cases if case.fault == name]
        for policy in policies:
            ran = [case for case in of_fault if policy in case.arms]
            if ran:
                shown.add_row(*_row(name, policy, ran, policy == policies[0]), end_section=policy == policies[-1])
    return shown


def _row(name: str, policy: str, ran: Sequence[Case], is_first: bool) -> list[str]:
    bound = FAULTS[name].bound if name in FAULTS else ""
    num_damaged = sum(case.is_damaged(SHADOW) for case in ran)
    rescued = sum(case.is_rescued(policy) for case in ran if case.is_damaged(SHADOW))
    return [
        name if is_first else "",
        bound if is_first else "",
        policy,
        _nats(mean(case.loss(policy) for case in ran)),
        _gap(mean(case.gap(policy) for case in ran)),
        f"{sum(case.is_damaged(policy) for case in ran)}/{len(ran)}",
        f"{rescued}/{num_damaged}" if policy != SHADOW and num_damaged else "",
        f"{mean(case.arms[policy].steps_lost for case in ran):.0f}",
        _applied_after(ran, policy),
        f"{mean(case.regret_steps(policy) for case in ran):.0f}",
        _actions(ran, policy),
    ]


def _applied_after(ran: Sequence[Case], policy: str) -> str:
    arms = [case.arms[policy] for case in ran]
    steps = [
        arm.first_applied - arm.fault_executed - 1
        for arm in arms
        if arm.first_applied is not None and arm.fault_executed is not None
    ]
    return ", ".join(map(str, sorted(steps)))


def _actions(ran: Sequence[Case], policy: str) -> str:
    counts: Counter[str] = Counter()
    for case in ran:
        for each in case.arms[policy].treatments:
            name = " + ".join(_NAMES.get(effect, effect) for effect in each.effects)
            counts[name if each.status == "applied" else f"{name} ({each.status or 'unanswered'})"] += 1
    return ", ".join(f"{count} × {name}" for name, count in counts.items())


def policy_table(scores: dict[str, Score]) -> Table:
    shown = Table(title="The policies", title_justify="left")
    shown.add_column("policy")
    for name in ("rescued", "rescued of lost", "healthy harmed", "needless", "worse than shadow", "regret"):
        shown.add_column(name, justify="right")
    for name in ("steps lost", "actions", "fault to applied p50 / max", "RPO max"):
        shown.add_column(name, justify="right")
    for name, said in scores.items():
        shown.add_row(name, *_policy_cells(said))
    return shown


def _policy_cells(said: Score) -> list[str]:
    applied = sorted(said.steps_to_applied)
    return [
        f"{said.rescued}/{said.damaged_in_shadow}",
        f"{said.rescued_lost}/{said.lost_in_shadow}",
        str(said.harmed_healthy),
        f"{said.needless_action_rate:.1%}",
        f"{said.worse_than_shadow_rate:.1%}",
        f"{said.regret_seconds:.0f} s",
        f"{said.steps_lost:.0f}",
        f"{said.actions:.1f}",
        f"{applied[(len(applied) - 1) // 2]} / {applied[-1]} steps" if applied else "",
        f"{max(said.rpo_steps)} steps" if said.rpo_steps else "",
    ]


def formula_lines(formula: Formula) -> list[str]:
    """The report's formula in words, a line a term."""
    lines = []
    if formula.num_spikes_prevented is not None:
        lines.append(
            f"prevention: clipping keeps {formula.num_spikes_prevented} of {formula.num_spikes} runs with "
            "exploding gradients from damage"
        )
    if formula.steps_saved is not None:
        lines.append(f"intervention: a cure in place saves {formula.steps_saved:.0f} steps a run against going back")
    if formula.checkpoint_overhead is not None:
        lines.append(f"checkpoint dependence: saving takes {formula.checkpoint_overhead:.1%} of the training time here")
    return lines


def _nats(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "lost"


def _gap(value: float) -> str:
    return f"{value:+.3f}" if math.isfinite(value) else "∞"
