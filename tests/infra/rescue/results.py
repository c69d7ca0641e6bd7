"""Made-up results of arms."""

from __future__ import annotations

from holter.infra.rescue.arm import Arm, ArmResult, Treatment
from holter.infra.rescue.curve import Curve
from holter.infra.rescue.prefix import Plan

CURVE = Curve(((0, 4.0), (100, 3.0), (200, 2.5), (300, 2.0)), fork_step=100)
"""Of the unhurt twin: it forks at a loss of 3 and ends at 2, a hundredth of a nat every other step."""


def result(
    fault: str, policy: str, final_loss: float | None, seed: int = 1, steps_lost: int = 0, is_treated: bool = False
) -> ArmResult:
    treated = Treatment(["rollback"], "", 30, 32, "applied", lost_steps=steps_lost, rpo_steps=20)
    return ArmResult(
        arm=Arm(Plan("convnet", seed, 300), fault, policy),
        final_loss=final_loss,
        curve=[(0, 3.0), (200, final_loss)],
        fault_executed=None if fault == "healthy" else 27,
        first_signal=28,
        num_incidents=1,
        num_incidents_before=0,
        treatments=[treated] if is_treated else [],
        steps_lost=steps_lost,
        said=[],
        step_seconds=0.01,
        save_seconds=0.002,
    )
