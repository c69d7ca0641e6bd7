"""Runs the demo's arms one after the other, each in a process of its own, and shows how they go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from holter.infra.demo.faults import FaultName

Arm = Literal["unhurt", "shadow", "guarded"]
ARMS: tuple[Arm, ...] = get_args(Arm)


@dataclass(frozen=True)
class Plan:
    """What all arms have in common."""

    fault: FaultName
    num_steps: int
    fault_at: int
    seed: int
    home: Path
    name: str

    def run_name(self, arm: Arm) -> str:
        return f"{self.name}-{arm}"


@dataclass
class ArmResult:
    arm: Arm
    run: str
    final_loss: float = float("nan")
    steps_lost: int = 0
    fault_step: int | None = None
    fault_ms: int | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)


class ArmFailed(Exception):
    """The training process ended with an error; the message holds its last lines."""


def run_arm(plan: Plan, arm: Arm, on_progress: Callable[[int, int, float], None]) -> ArmResult:
    """Trains one arm; ``on_progress`` is told of executed steps, the run's step and its loss.

    Raises:
        ArmFailed: it did not end well.
    """
    result = ArmResult(arm, plan.run_name(arm))
    for said in _said(_command(plan, arm), plan.home):
        if said["event"] == "progress":
            result.losses.append((said["executed"], said["loss"]))
            on_progress(said["executed"], said["step"], said["loss"])
        elif said["event"] == "fault" and result.fault_step is None:
            result.fault_step, result.fault_ms = said["step"], said["ts"]
        elif said["event"] == "result":
            result.final_loss, result.steps_lost = said["final_loss"], said["steps_lost"]
    return result


def _command(plan: Plan, arm: Arm) -> list[str]:
    options = {
        "arm": arm,
        "run-name": plan.run_name(arm),
        "checkpoints": plan.home / "demo-checkpoints",
        "fault": plan.fault,
        "num-steps": plan.num_steps,
        "fault-at": plan.fault_at,
        "seed": plan.seed,
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [sys.executable, "-m", "holter.infra.demo.train", *arguments]


def _said(command: list[str], home: Path) -> Iterator[dict[str, Any]]:
    environ = {**os.environ, "HOLTER_HOME": str(home)}
    log = home / "logs" / "demo-training.log"
    with (
        log.open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    if process.returncode:
        raise ArmFailed(f"training ended with exit code {process.returncode}: see {log}")
