"""Policies: from an open incident to one of the options.

``patient`` goes back at a non-finite value that may be in the weights or when recovery is unlikely. ``cautious`` also
goes back once waiting has cost as much as going back would have: the ski-rental rule (Karlin et al. 1988), never more
than twice the cost of the best choice made with hindsight. ``report`` is the rule of the design report: bands of
P(recover), and for explosions a moment reset before a rollback. ``expected-cost`` weighs everything in seconds.
"""

from __future__ import annotations

from holter.pipeline.core.decide.checkpoints import Checkpoint
from holter.pipeline.core.decide.expected_cost import ExpectedCost
from holter.pipeline.core.decide.settings import CostSettings
from holter.pipeline.core.decide.situation import (
    MONITOR,
    Choice,
    Policy,
    Situation,
    effect_names,
    roll_back,
    wait,
)
from holter.pipeline.core.incidents import UNLIKELY_BELOW
from holter.schemas.control import LrFactor, MomentumReset

__all__ = ["MONITOR", "PRESETS", "Choice", "Policy", "Situation", "effect_names", "policy_named"]

_LR_CUT = 0.5
_LR_FLOOR = 0.1
_UNLIKELY_RECORDS = 2
"""One estimate alone is often taken back by the next."""


def patient(situation: Situation) -> Choice:
    incident = situation.incident
    if situation.non_finite:
        return roll_back(situation, "a non-finite value may have reached the weights")
    if incident.num_unlikely >= _UNLIKELY_RECORDS:
        return roll_back(situation, f"P(recover) {incident.p_recover:.2f} stays below {UNLIKELY_BELOW}")
    if incident.num_unlikely:
        return wait(f"P(recover) {incident.p_recover:.2f} is below {UNLIKELY_BELOW} for the first time")
    return wait(f"P(recover) {incident.p_recover:.2f}: the run is likely to heal by itself")


def cautious(situation: Situation) -> Choice:
    choice = patient(situation)
    if choice.name != MONITOR or situation.checkpoint is None:
        return choice
    waited = situation.step - situation.incident.onset_step
    price = rollback_price_steps(situation, situation.checkpoint)
    if situation.outside_band and waited >= price:
        return roll_back(situation, f"{waited} steps outside the band have cost what going back costs ({price:.0f})")
    return choice


def report(situation: Situation) -> Choice:
    incident = situation.incident
    if "grad_explosion" in incident.kinds or "update_explosion" in incident.kinds:
        if "momentum_reset" not in incident.applied:
            return Choice("momentum_reset", (MomentumReset(),), "an explosion: clear the moments first")
        return roll_back(situation, "an explosion that a moment reset did not end")
    if situation.non_finite or incident.p_recover < 0.3:
        return roll_back(situation, f"P(recover) {incident.p_recover:.2f} is below 0.3")
    if incident.p_recover < 0.7 and "lr_factor" not in incident.applied and situation.lr_factor > _LR_FLOOR:
        return Choice("lr_cut", (_lr_cut(situation),), f"P(recover) {incident.p_recover:.2f} is below 0.7")
    return wait(f"P(recover) {incident.p_recover:.2f}")


_EXPECTED_COST = "expected-cost"
PRESETS: dict[str, Policy] = {
    "patient": patient,
    "cautious": cautious,
    "report": report,
    _EXPECTED_COST: ExpectedCost(),
}


def policy_named(name: str, costs: CostSettings) -> Policy:
    """The preset of this name, reckoning with these costs where it reckons.

    Raises:
        KeyError: there is none.
    """
    return ExpectedCost(costs) if name == _EXPECTED_COST else PRESETS[name]


def rollback_price_steps(situation: Situation, checkpoint: Checkpoint) -> float:
    """Steps that going back at the onset would have cost: those since the checkpoint, and the time of the load."""
    load = situation.load_seconds / situation.step_seconds if situation.step_seconds > 0.0 else 0.0
    return situation.incident.onset_step - checkpoint.step + load


def _lr_cut(situation: Situation) -> LrFactor:
    return LrFactor(max(_LR_FLOOR, situation.lr_factor * _LR_CUT))
