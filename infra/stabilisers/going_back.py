"""Rollback as an arm: a run that can go back, and whoever says when."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch

from holter.infra.stabilisers.faults import Fault
from holter.producers.torch.norms import SampledUpdateNorm
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, UPDATE_NORM

_SNAPSHOT_EVERY = 25


class Decider(Protocol):
    """Is told of every snapshot and every executed step; steps are counted from 1, as they are done."""

    def kept(self, step: int) -> None:
        """There is a snapshot of the run after so many steps."""

    def target(self, step: int, values: dict[str, float]) -> int | None:
        """After step ``step``, which measured this: go on after the newest snapshot of no later step than that."""

    def went_back(self, step: int, back: int) -> None:
        """From ``step`` to ``back``."""


class GoingBack:
    """Snapshots every 25 steps, in memory; data goes on where it is, so that what was hurt is never met again."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, decider: Decider) -> None:
        self._model, self._optimizer, self._decider = model, optimizer, decider
        self._update_norm = SampledUpdateNorm(list(model.parameters()))
        self._snapshots: dict[int, dict[str, Any]] = {}

    def keep_if_due(self, step: int) -> None:
        """After ``step`` steps of the run."""
        if step % _SNAPSHOT_EVERY == 0 and step not in self._snapshots:
            state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}
            self._snapshots[step] = copy.deepcopy(state)
            self._decider.kept(step)

    def go_on_after(self, step: int, loss: float, norm: float) -> int:
        """How many steps of the run are done after this one was: ``step``, or fewer where it went back."""
        update, rate = float(self._update_norm.measure()), self._optimizer.param_groups[0]["lr"]
        measured = {LOSS: loss, GRAD_NORM: norm, UPDATE_NORM: update, LEARNING_RATE: rate}
        wanted = self._decider.target(step, measured)
        back = max((kept for kept in self._snapshots if wanted is not None and kept <= wanted), default=None)
        if back is None:
            return step
        self._restore(back)
        self._decider.went_back(step, back)
        return back

    def _restore(self, step: int) -> None:
        state = copy.deepcopy(self._snapshots[step])
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._update_norm.restart()
        self._snapshots = {kept: value for kept, value in self._snapshots.items() if kept <= step}


class Ordered:
    """By who knows the fault: as soon as it ends, to before it began, once each time it strikes."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._executed = 0

    def kept(self, step: int) -> None:
        pass

    def target(self, step: int, values: dict[str, float]) -> int | None:
        onset = self._fault.onset_of_ended(self._executed)
        self._executed += 1  # onset and executed count from 0
        return None if onset is None else step - (self._executed - onset)

    def went_back(self, step: int, back: int) -> None:
        pass
