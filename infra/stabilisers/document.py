"""What was measured as one JSON object: what the command ends with, and what comes with Holter in ``measured.json``.

Only what is whole is in it: a number over fewer seeds than its neighbours would be compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holter.infra.stabilisers.campaign import Campaign
from holter.infra.stabilisers.ordering import Recovery, RecoveryResult
from holter.infra.stabilisers.setting import Cell
from holter.infra.stabilisers.summary import (
    Spread,
    cost_of,
    figures,
    losses,
    ordering_verdict,
    recovery_steps,
    remedies,
)
from holter.infra.stabilisers.trial import Trial, TrialResult

Trials = Mapping[Trial, TrialResult]
Recoveries = Mapping[Recovery, RecoveryResult]


def as_json(campaign: Campaign, trials: Trials, recoveries: Recoveries) -> dict[str, Any]:
    """By arm, fault and β2: means and deviations, and what the fault cost; no number where a run was lost."""
    kept = _whole(campaign, trials)
    found = remedies(recoveries)
    return {
        "setting": campaign.setting.described(),
        "num_seeds": len(campaign.seeds),
        "losses": {f"{arm}/{fault}/{beta2:g}": _listed(each) for (arm, fault, beta2), each in losses(kept).items()},
        "costs": _costs(kept),
        "steps_back": _steps_back(campaign, kept),
        "figures": {each.name: {"value": _number(each.value), "met": each.met} for each in figures(kept)},
        "checkfree": {
            remedy: {"loss": _listed(each.loss), "jump": _listed(each.jump), "loss_after": _listed(each.loss_after)}
            for remedy, each in found.items()
        },
        "num_checkfree_seeds": min((each.loss.num_seeds for each in found.values()), default=0),
        "checkfree_order": ordering_verdict(found) if found else None,
    }


def _whole(campaign: Campaign, trials: Trials) -> Trials:
    """Of the columns in which every arm has every seed."""
    wanted = len(campaign.arms) * len(campaign.seeds)
    columns: dict[Cell, int] = {}
    for trial in trials:
        columns[trial.fault, trial.beta2] = columns.get((trial.fault, trial.beta2), 0) + 1
    return {trial: result for trial, result in trials.items() if columns[trial.fault, trial.beta2] == wanted}


def _costs(trials: Trials) -> dict[str, float | None]:
    found = {}
    for arm, fault, beta2 in losses(trials):
        cost = None if fault == "clean" else cost_of(trials, arm, fault, beta2)
        if cost is not None:
            found[f"{arm}/{fault}/{beta2:g}"] = _number(cost.mean)
    return found


def _steps_back(campaign: Campaign, trials: Trials) -> dict[str, tuple[float | None, int]]:
    """Mean steps until the loss is back after a burst of the learning rate, and how many runs never were."""
    burst = {(trial.arm, trial.beta2) for trial in trials if trial.fault == "lr"}
    return {
        f"{arm}/{beta2:g}": recovery_steps(trials, arm, beta2)
        for arm, beta2 in sorted(burst, key=lambda each: (each[1], campaign.arms.index(each[0])))
    }


def _listed(value: Spread) -> list[float | None]:
    return [_number(value.mean), _number(value.deviation)]


def _number(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None
