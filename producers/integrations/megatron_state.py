"""What a ``MegatronOptimizer`` holds beside the model's own weights, out of it and back into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch


class MegatronState:
    """Of every optimizer in it that steps: its moments, its own copy of the weights, and the gradient scaler.

    All of it is taken from the torch optimizer inside, whose weights are this rank's part, in single precision, where
    the optimizer is distributed. ``DistributedOptimizer.state_dict`` leaves out moments and weights, and gathers them
    from all ranks for its own checkpoints.
    """

    def __init__(self, optimizer: Any, model: torch.nn.Module) -> None:
        self._parts = [part for part in parts_of(optimizer) if getattr(part, "optimizer", None) is not None]
        self._of_model = {id(weight) for weight in model.parameters()}

    def state_dict(self) -> dict[str, Any]:
        """References to the live tensors, not copies."""
        return {
            str(at): {
                "inner": part.optimizer.state_dict(),
                "weights": self._own_weights(part),
                "scaler": _scaler_state(part),
            }
            for at, part in enumerate(self._parts)
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for at, part in enumerate(self._parts):
            of_part = state[str(at)]
            part.optimizer.load_state_dict(of_part["inner"])
            for live, stored in zip(self._own_weights(part), of_part["weights"], strict=True):
                live.copy_(stored)
            if of_part["scaler"] is not None:
                part.grad_scaler.load_state_dict(of_part["scaler"])

    def _own_weights(self, part: Any) -> list[torch.Tensor]:
        """Those of which the model has none or a copy of lower precision."""
        weights = [weight for group in part.optimizer.param_groups for weight in group["params"]]
        return [weight.detach() for weight in weights if id(weight) not in self._of_model]


class RewoundScheduler:
    """Megatron's ``OptimizerParamScheduler``, whose ``load_state_dict`` adds the steps to those that it has done."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._scheduler.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._scheduler.num_steps = 0
        self._scheduler.load_state_dict(state)


def parts_of(optimizer: Any) -> Iterable[Any]:
    """Those that a ``ChainedOptimizer`` is made of, or the one that it is."""
    parts: Iterable[Any] = getattr(optimizer, "chained_optimizers", [optimizer])
    return parts


def why_unknown(optimizer: Any) -> str:
    """Why the state that belongs to this rank cannot be told from outside; empty where it can."""
    reasons = (
        ("LayerWiseDistributedOptimizer", hasattr(optimizer, "broadcast_params")),
        ("Megatron-FSDP", _is_set(optimizer, "ddp_config", "use_megatron_fsdp")),
        ("optimizer_cpu_offload", _is_set(optimizer, "config", "optimizer_cpu_offload")),
        ("use_precision_aware_optimizer", _is_set(optimizer, "config", "use_precision_aware_optimizer")),
    )
    found = next((name for name, applies in reasons if applies), "")
    return f"with {found} Holter does not know how the state lies on the ranks" if found else ""


def _is_set(optimizer: Any, settings: str, name: str) -> bool:
    return any(getattr(getattr(part, settings, None), name, False) for part in parts_of(optimizer))


def _scaler_state(part: Any) -> dict[str, Any] | None:
    scaler = getattr(part, "grad_scaler", None)
    return None if scaler is None else scaler.state_dict()
