"""Everything that makes a step what it is, out of the training objects and back into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from holter.producers.torch.data_position import DataPosition
from holter.producers.torch.learning_rate import LearningRateFactor
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.random_state import random_states, restore_random_states


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


@dataclass(frozen=True)
class TrainingObjects:
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: Stateful | None
    scaler: Stateful | None
    learning_rate: LearningRateFactor
    data: DataPosition

    def state(self) -> dict[str, Any]:
        """References to the live tensors, not copies."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "random": random_states(),
            "data": self.data.state(),
            "lr_factor": self.learning_rate.factor,
        }

    def check(self, state: dict[str, Any]) -> None:
        """Whether :meth:`load` would succeed, as far as can be told without touching anything.

        Raises:
            Mismatch: names or shapes differ.
        """
        live, stored = self.model.state_dict(), state["model"]
        if live.keys() != stored.keys():
            odd = sorted(live.keys() ^ stored.keys())[0]
            raise Mismatch(f"the checkpoint is of another model: {odd!r} is only on one side")
        for name, tensor in live.items():
            if isinstance(tensor, torch.Tensor) and tensor.shape != stored[name].shape:
                raise Mismatch(f"{name} is {tuple(tensor.shape)}, in the checkpoint {tuple(stored[name].shape)}")
        for part in ("scheduler", "scaler"):
            if (getattr(self, part) is None) != (state[part] is None):
                raise Mismatch(f"only one of checkpoint and run has a {part}")
        if len(state["optimizer"]["param_groups"]) != len(self.optimizer.param_groups):
            raise Mismatch("the optimizer has another number of parameter groups")
        self.data.check(state["data"])

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        self.learning_rate.factor = float(state["lr_factor"])
        restore_random_states(state["random"])
        self.data.load(state["data"])
