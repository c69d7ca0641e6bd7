"""``--real-stack``: the same faults in runs that the running local stack judges and treats, in real time.

Untreated they would end as in the matrix to the last bit, so that shadow and unhurt twin are taken from there.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from holter import producers
from holter.infra.demo.follow import Follower, Heard
from holter.infra.errors import StackError
from holter.infra.rescue.arm import ALL_EFFECTS, SHADOW
from holter.infra.rescue.faults import FAULTS
from holter.infra.rescue.lockstep import PROJECT
from holter.infra.rescue.prefix import Plan
from holter.infra.rescue.score import DAMAGED_NATS, RESCUED_SHARE, Case, final_loss
from holter.infra.rescue.training import Style, Trained, train
from holter.infra.rescue.workload import build
from holter.infra.state import StackState
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET
from holter.producers.run import Run
from holter.schemas.control import Action, effect_name
from holter.schemas.telemetry import Ack

LIVE_FAULTS = ("lr-burst", "gradient-burst", "bad-data", "nan-loss", "bit-flip", "lr-burst-damaged-checkpoint")
STEP_SECONDS = 0.1
"""The least that a step takes: a step of these nets alone is shorter than any way through a broker."""


_LAST_WORDS_SECONDS = 2.0


class RealTime:
    """Lets every step take its time; nothing is waited for."""

    def __init__(self, run: Run, step_seconds: float) -> None:
        self.run = run
        self._step_seconds = step_seconds
        self._began = time.monotonic()

    def settle(self, step: int, saves: bool) -> None:
        time.sleep(max(0.0, self._began + self._step_seconds - time.monotonic()))
        self._began = time.monotonic()


@dataclass(frozen=True)
class Live:
    """A treated run. ``latch_ms`` are from the clock of the step that decided to the latch in the trainer."""

    fault: str
    final_loss: float
    steps_lost: int
    effects: tuple[str, ...]
    steps_to_applied: int | None
    latch_ms: tuple[float, ...]


def run_live(
    fault: str, plan: Plan, folder: Path, step_seconds: float, environ: Mapping[str, str] = os.environ
) -> tuple[str, Trained]:
    """Trains it from its first step on; returns the run's name with what came of it."""
    at = plan.prefix_steps + plan.struck_after
    harm = FAULTS[fault].make(at)
    name = f"{fault}-{time.time_ns()}"
    pacer = RealTime(producers.init(PROJECT, name, environ=environ), step_seconds)
    setup = build(plan.workload, plan.seed, plan.horizon_steps, harm.hurt_batch)
    trained = train(setup, pacer, folder, harm, at + plan.steps_after, Style(ALL_EFFECTS))
    pacer.run.finish()
    return name, trained


def bus_of_stack(state: StackState) -> KafkaBus:
    """Raises:
    StackError: no stack is up, or it decides by another policy than the default one.
    """
    if state.kafka_bootstrap is None:
        raise StackError("no stack is up: start it with `holter up`")
    if state.policy != DEFAULT_PRESET:
        raise StackError(f"the stack decides by another policy: `holter up --policy {DEFAULT_PRESET}` changes that")
    return KafkaBus(KafkaSettings(state.kafka_bootstrap, state.prefix))


def run_all_live(plans: Mapping[str, Plan], bus: KafkaBus, folder: Path, tell: Callable[[str], None]) -> list[Live]:
    """One fault after the other; ``tell`` hears which."""
    follower = Follower(bus, lambda heard: None)
    follower.start()
    runs = []
    for fault, plan in plans.items():
        tell(f"{fault}: training through the stack")
        runs.append((fault, *run_live(fault, plan, folder, STEP_SECONDS)))
    time.sleep(_LAST_WORDS_SECONDS)
    follower.stop()
    return [_live(fault, trained, follower.of_run(name)) for fault, name, trained in runs]


def _live(fault: str, trained: Trained, heard: Sequence[Heard]) -> Live:
    actions = {each.record.id: each.record for each in heard if isinstance(each.record, Action)}
    acks = [each.record for each in heard if isinstance(each.record, Ack)]
    applied = [ack for ack in acks if ack.status == "applied"]
    first = None if not applied or trained.fault_step is None else applied[0].step - trained.fault_step
    return Live(
        fault,
        trained.curve[-1][1],
        trained.curve[-1][0] - trained.final_step,
        tuple(" + ".join(map(effect_name, actions[ack.action].effects)) for ack in applied if ack.action in actions),
        first,
        tuple(_latch_ms(actions[ack.action], ack) for ack in applied if ack.action in actions and ack.latency_ms),
    )


def _latch_ms(action: Action, ack: Ack) -> float:
    """The latch was so long before the acknowledgement; both clocks are the trainer's."""
    assert ack.latency_ms is not None
    return ack.ts - ack.latency_ms - action.decided_ts


def live_table(lives: Sequence[Live], cases: Mapping[str, Case]) -> Table:
    shown = Table(title="Through the real broker and cluster", title_justify="left")
    shown.add_column("fault", no_wrap=True)
    for name in ("final loss", "shadow above unhurt", "above unhurt", "steps lost", "applied after", "log to latch"):
        shown.add_column(name, justify="right")
    shown.add_column("applied")
    for live in lives:
        case = cases[live.fault]
        shown.add_row(
            live.fault,
            f"{live.final_loss:.3f}",
            f"{case.gap('shadow'):+.3f}",
            f"{live.final_loss - final_loss(case.twin):+.3f}",
            str(live.steps_lost),
            "" if live.steps_to_applied is None else f"{live.steps_to_applied} steps",
            ", ".join(f"{each:.0f} ms" for each in live.latch_ms),
            ", ".join(live.effects),
        )
    return shown


def plain(live: Live, case: Case) -> dict[str, object]:
    gap, shadow = live.final_loss - final_loss(case.twin), case.gap(SHADOW)
    allowed = (1.0 - RESCUED_SHARE) * shadow if math.isfinite(shadow) else DAMAGED_NATS
    return {
        "fault": live.fault,
        "gap_nats": gap if math.isfinite(gap) else None,
        "shadow_gap_nats": shadow if math.isfinite(shadow) else None,
        "damaged_in_shadow": case.is_damaged(SHADOW),
        "rescued": gap <= allowed,
        "steps_lost": live.steps_lost,
        "applied": list(live.effects),
        "steps_to_applied": live.steps_to_applied,
        "latch_ms": [round(each, 1) for each in live.latch_ms],
    }
