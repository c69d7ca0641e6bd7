"""Rollback as an arm: ordered by who knows the fault, or by Holter's own detectors and policy, which read the run."""

from __future__ import annotations

import copy
from typing import Any

import torch

from holter.infra.stabilisers.faults import Fault
from holter.pipeline.core.steps import StepRecord
from holter.pipeline.replay.judge import Judge
from holter.schemas.telemetry import GRAD_NORM, LOSS

_SNAPSHOT_EVERY = 25
_STEP_MS = 100


class GoingBack:
    """Snapshots every 25 steps; on "roll back" the newest one from before the onset.

    The judge gets a record per executed step, as a trainer publishes it: loss and gradient norm, and no fault.

    Args:
        fault: going back is ordered as soon as it ends, once each time it strikes; None leaves it to the judge.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, fault: Fault | None) -> None:
        self._fault = fault
        self._model, self._optimizer = model, optimizer
        self._judge = Judge("patient")
        self._snapshots: dict[int, dict[str, Any]] = {}
        self._executed = 0
        self._attempt = 1

    def keep_if_due(self, step: int) -> None:
        if step % _SNAPSHOT_EVERY == 0:
            state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}
            self._snapshots[step] = copy.deepcopy(state)

    def step_to_return_to(self, step: int, loss: float, norm: float) -> int | None:
        """Tells of step ``step``; where to go on, where the policy wants to go back."""
        onset = self._ordered(step) if self._fault is not None else self._judged(step, loss, norm)
        self._executed += 1
        if onset is None:
            return None
        return max((kept for kept in self._snapshots if kept <= onset), default=None)

    def go_back(self, step: int) -> None:
        state = copy.deepcopy(self._snapshots[step])
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._snapshots = {kept: value for kept, value in self._snapshots.items() if kept <= step}
        self._attempt += 1

    def _ordered(self, step: int) -> int | None:
        assert self._fault is not None
        onset = self._fault.onset_of_ended(self._executed)
        return None if onset is None else step - (self._executed - onset)

    def _judged(self, step: int, loss: float, norm: float) -> int | None:
        """The last step before the incident, where the policy wants to go back."""
        now = self._executed * _STEP_MS
        values = {LOSS: loss, GRAD_NORM: norm}
        record = StepRecord(self._attempt, 0, step, now, self._executed, True, True, values)
        wants = any(event.action == "rollback" for event in self._judge.update(record))
        incident = self._judge.stage.incident
        return incident.onset_step - 1 if wants and incident is not None else None
