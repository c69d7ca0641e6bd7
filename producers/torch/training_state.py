"""Everything that makes a step what it is, out of the training objects and back into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from holter.producers.torch.checkfree import Stage
from holter.producers.torch.clip import Clipper
from holter.producers.torch.data_position import DataPosition
from holter.producers.torch.explosion_reflex import ExplosionReflex
from holter.producers.torch.learning_rate import LearningRateFactor
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.random_state import random_states, restore_random_states
from holter.producers.torch.sharding import can_pack, check_fits, is_flat_sharded, is_packed, unpacked


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
    clip: Clipper | None = None
    num_ranks: int = 1
    explosions: ExplosionReflex | None = None
    stage: Stage | None = None
    """Where this is a stage of a pipeline; its weights are the model's, so nothing of it is saved."""

    @property
    def can_be_saved(self) -> bool:
        """Whether :meth:`state` would be whole: it is not where the parts lie on the ranks in unknown ways."""
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        if is_flat_sharded(self.model) or hasattr(self.optimizer, "consolidate_state_dict"):
            return False
        return can_pack([*weights, *self.model.parameters()])

    def state(self) -> dict[str, Any]:
        """References to the live tensors, not copies."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "lr_factor": self.learning_rate.state(),
            "clip": None if self.clip is None else self.clip.state_dict(),
            "explosions": None if self.explosions is None else self.explosions.state(),
            "num_ranks": self.num_ranks,
        } | self.own_state()

    def own_state(self) -> dict[str, Any]:
        """What differs between ranks that share all the rest."""
        return {"random": random_states(), "data": self.data.state()}

    def check(self, state: dict[str, Any]) -> None:
        """Whether :meth:`load` would succeed, as far as can be told without touching anything.

        Raises:
            Mismatch: names or shapes differ.
        """
        if state["num_ranks"] != self.num_ranks:
            raise Mismatch(f"the checkpoint is of a job with {state['num_ranks']} ranks, this one has {self.num_ranks}")
        _check_model(self.model.state_dict(), state["model"])
        for part in ("scheduler", "scaler"):
            if (getattr(self, part) is None) != (state[part] is None):
                raise Mismatch(f"only one of checkpoint and run has a {part}")
        if len(state["optimizer"]["param_groups"]) != len(self.optimizer.param_groups):
            raise Mismatch("the optimizer has another number of parameter groups")
        self.data.check(state["data"])

    def load(self, state: dict[str, Any]) -> None:
        live = self.model.state_dict()
        self.model.load_state_dict({name: unpacked(value, live[name]) for name, value in state["model"].items()})
        self._load_optimizer(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        self.learning_rate.load(state["lr_factor"])
        self._load_clip(state.get("clip"))
        if self.explosions is not None and state.get("explosions") is not None:
            self.explosions.load(state["explosions"])
        restore_random_states(state["random"])
        self.data.load(state["data"])

    def _load_clip(self, state: dict[str, Any] | None) -> None:
        """A process that resumes may clip in another way than the one before: its clipper then starts anew."""
        if self.clip is not None and state is not None and state["name"] == self.clip.name:
            self.clip.load_state_dict(state)

    def _load_optimizer(self, state: dict[str, Any]) -> None:
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        unpacked_state = {
            at: {name: unpacked(value, weights[at]) for name, value in entry.items()}
            for at, entry in state["state"].items()
        }
        self.optimizer.load_state_dict({**state, "state": unpacked_state})
        for rate, group in zip(rates, self.optimizer.param_groups, strict=True):
            if isinstance(rate, torch.Tensor):  # a captured graph or a fused kernel holds on to it
                with torch.no_grad():
                    group["lr"] = rate.copy_(torch.as_tensor(group["lr"]))


def _check_model(live: dict[str, Any], stored: dict[str, Any]) -> None:
    if live.keys() != stored.keys():
        odd = sorted(live.keys() ^ stored.keys())[0]
        raise Mismatch(f"the checkpoint is of another model: {odd!r} is only on one side")
    for name, tensor in live.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        value = stored[name]
        shape = tuple(value["shape"]) if is_packed(value) else tuple(value.shape)
        if tuple(tensor.shape) != shape:
            raise Mismatch(f"{name} is {tuple(tensor.shape)}, in the checkpoint {shape}")
        check_fits(value, tensor)
