"""One arm: from the fork on, hurt or not, under one policy; and what came of it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from msgspec import Struct

from holter.infra.rescue.faults import FAULTS, Fault
from holter.infra.rescue.line import line_of
from holter.infra.rescue.lockstep import Heard, Lockstep, Pace
from holter.infra.rescue.prefix import Plan, Prefix, fork
from holter.infra.rescue.ranks import Unjudged, run_two_ranks
from holter.infra.rescue.training import Pacer, Style, Trained, train
from holter.infra.rescue.workload import build
from holter.schemas.bounds import EffectName
from holter.schemas.control import Action, Rollback, effect_name
from holter.schemas.signals import Signal
from holter.schemas.telemetry import Ack

SHADOW = "shadow"
CLIPPED = "clipped"
"""In shadow, with the gradient norm clipped to 1."""
ROLLBACK_ONLY = "rollback-only"
"""``expected-cost`` that has no cure but going back."""
HEALTHY = "healthy"
ALL_EFFECTS: tuple[EffectName, ...] = ("nan_guard", "lr_factor", "momentum_reset", "rollback", "skip_range")
_ALLOWED: dict[str, tuple[EffectName, ...]] = {
    SHADOW: (),
    CLIPPED: (),
    ROLLBACK_ONLY: ("nan_guard", "rollback", "skip_range"),
}
_PRESET_OF = {SHADOW: "cautious", CLIPPED: "cautious", ROLLBACK_ONLY: "expected-cost"}
_NEVER = 10**9


class Arm(Struct, frozen=True):
    """``fault`` is the name of one, or ``healthy``; ``policy`` a preset or one of the three above."""

    plan: Plan
    fault: str
    policy: str

    @property
    def name(self) -> str:
        return f"{self.fault}-{self.plan.name}-{self.policy}"


class Treatment(Struct, frozen=True, omit_defaults=True):
    """An action and its answer. Steps are executed ones since the fork."""

    effects: list[str]
    reason: str
    decided: int
    answered: int | None = None
    status: str = ""
    answer: str = ""
    lost_steps: int = 0
    rpo_steps: int | None = None
    """From the step it went back to, to the onset: what was good and had to be done again."""


class Said(Struct, frozen=True):
    """A line of what was heard; ``executed`` as in :class:`Treatment`."""

    executed: int
    what: str


class ArmResult(Struct, frozen=True):
    """Losses are held-out ones in nats, None where they are not finite."""

    arm: Arm
    final_loss: float | None
    curve: list[tuple[int, float | None]]
    fault_executed: int | None
    first_signal: int | None
    """Executed steps at the first signal after the fault (anywhere in a healthy run)."""
    num_incidents: int
    num_incidents_before: int
    treatments: list[Treatment]
    steps_lost: int
    said: list[Said]
    step_seconds: float
    """Of this machine, median."""
    save_seconds: float
    """What a step that begins a checkpoint takes beyond that, mean."""

    @property
    def num_applied(self) -> int:
        return sum(each.status == "applied" for each in self.treatments)

    @property
    def first_applied(self) -> int | None:
        return next((each.answered for each in self.treatments if each.status == "applied"), None)


def run_arm(arm: Arm, prefix_folder: Path, pace: Pace) -> ArmResult:
    with tempfile.TemporaryDirectory(prefix="holter-rescue-") as name:
        folder = Path(name)
        prefix = fork(prefix_folder, folder)
        if arm.plan.num_ranks == 1:
            return _lead(arm, prefix, folder, pace)
        return run_two_ranks(_lead, _follow, arm, prefix, folder, pace)


def _lead(arm: Arm, prefix: Prefix, folder: Path, pace: Pace) -> ArmResult:
    plan, preset = arm.plan, _PRESET_OF.get(arm.policy, arm.policy)
    lockstep = Lockstep(plan.name, preset, pace, prefix.snapshots, plan.prefix_steps, plan.num_ranks)
    trained = _train(arm, lockstep, folder, rank=0)
    lockstep.finish()
    return _result(arm, trained, lockstep.heard)


def _follow(arm: Arm, prefix: Prefix, folder: Path, pace: Pace) -> None:
    _train(arm, Unjudged(arm.plan.name, folder), folder, rank=1)


def _train(arm: Arm, pacer: Pacer, folder: Path, rank: int) -> Trained:
    plan, fault = arm.plan, make_fault(arm)
    fault.rank = rank
    setup = build(plan.workload, plan.seed, plan.horizon_steps, fault.hurt_batch, rank)
    style = Style(_ALLOWED.get(arm.policy, ALL_EFFECTS), resume=True, clip=1.0 if arm.policy == CLIPPED else None)
    return train(setup, pacer, folder, fault, plan.arm_steps, style)


def make_fault(arm: Arm) -> Fault:
    if arm.fault == HEALTHY:
        return Fault(_NEVER)
    kind, plan = FAULTS[arm.fault], arm.plan
    return kind.make(plan.struck_after + (plan.prefix_steps if kind.bound == "data position" else 0))


def _result(arm: Arm, trained: Trained, heard: list[Heard]) -> ArmResult:
    opened = [each.executed for each in heard if isinstance(each.record, Signal) and each.record.phase == "open"]
    struck = trained.fault_executed
    after = [executed for executed in opened if struck is None or executed > struck]
    typical = median(trained.step_seconds)
    return ArmResult(
        arm=arm,
        final_loss=_finite(trained.curve[-1][1]),
        curve=[(executed, _finite(loss)) for executed, loss in trained.curve],
        fault_executed=struck,
        first_signal=after[0] if after else None,
        num_incidents=len(opened),
        num_incidents_before=len(opened) - len(after),
        treatments=treatments(heard),
        steps_lost=trained.curve[-1][0] - (trained.final_step - arm.plan.prefix_steps),
        said=[Said(each.executed, line) for each in heard if (line := line_of(each.record))],
        step_seconds=typical,
        save_seconds=sum(trained.save_step_seconds) / max(1, len(trained.save_step_seconds)) - typical,
    )


def treatments(heard: Iterable[Heard]) -> list[Treatment]:
    """The actions in order, each with its answer."""
    onsets: dict[str, int] = {}
    answers: dict[str, tuple[int, Ack]] = {}
    actions: list[tuple[int, Action]] = []
    for each in heard:
        record = each.record
        if isinstance(record, Signal):
            onsets.setdefault(record.incident, record.onset_step)
        elif isinstance(record, Action):
            actions.append((each.executed, record))
        elif isinstance(record, Ack):
            answers[record.action] = (each.executed, record)
    return [_treatment(decided, action, answers.get(action.id), onsets) for decided, action in actions]


def _treatment(decided: int, action: Action, answer: tuple[int, Ack] | None, onsets: dict[str, int]) -> Treatment:
    effects: list[str] = [effect_name(effect) for effect in action.effects]
    if answer is None:
        return Treatment(effects, action.reason, decided)
    answered, ack = answer[0] - 1, answer[1]  # it is read with what the next step says
    target = next((effect.step for effect in action.effects if isinstance(effect, Rollback)), None)
    went_back = target is not None and ack.status == "applied"
    onset = onsets.get(action.incident)
    return Treatment(
        effects,
        action.reason,
        decided,
        answered,
        ack.status,
        ack.reason,
        lost_steps=ack.step - target if went_back and target is not None else 0,
        rpo_steps=onset - target if went_back and target is not None and onset is not None else None,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
