"""What is examined, and how its user's function may return it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from holter.producers.torch.preflight.ranks import RankFacts

Loss = Callable[[torch.nn.Module, Any], torch.Tensor]


@dataclass(frozen=True)
class Subject:
    """A training job that has not begun. Only the model is needed; each of the others lets more be checked.

    Attributes:
        batch: what the model is called with: a mapping of keywords, a sequence of arguments, or one tensor.
        loss: ``loss(model, batch)``; by default the model's own ``loss``, its only scalar, or cross-entropy of its
            logits against an integer second element of the batch.
        clip: the largest gradient norm; 0 where nothing is clipped, None where that is not known.
        steps: how many optimizer steps are planned.
        warmup: over how many of them the loop itself raises the learning rate; None where the scheduler says it.
        precision: the type of ``torch.autocast``, where the job uses it.
        ranks: of every rank, its weights' and random states' digests, rank 0 first.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer | None = None
    scheduler: Any = None
    scaler: Any = None
    batch: Any = None
    loss: Loss | None = None
    clip: float | None = None
    steps: int | None = None
    warmup: int | None = None
    precision: torch.dtype | None = None
    ranks: Sequence[RankFacts] = field(default=())

    def betas(self) -> tuple[float, float] | None:
        """Of an optimizer of the Adam family."""
        pair = None if self.optimizer is None else self.optimizer.param_groups[0].get("betas")
        return None if pair is None or len(pair) < 2 else (float(pair[0]), float(pair[1]))

    def narrow_types(self) -> set[torch.dtype]:
        """The 16-bit types that the model computes in."""
        used = {parameter.dtype for parameter in self.model.parameters()} | {self.precision}
        return {dtype for dtype in (torch.float16, torch.bfloat16) if dtype in used}


def subject_of(returned: Any) -> Subject:
    """A model; a mapping of :class:`Subject`'s fields; or a sequence whose parts are known by their types.

    In a sequence, what is no model, optimizer, scheduler or ``GradScaler`` is the batch.

    Raises:
        ValueError: it is none of these, or has no model.
    """
    if isinstance(returned, Subject):
        return returned
    if isinstance(returned, torch.nn.Module):
        return Subject(returned)
    if isinstance(returned, Mapping):
        return _from_mapping(returned)
    if isinstance(returned, (tuple, list)):
        return _from_mapping(_sorted_by_type(returned))
    raise ValueError(f"it returned a {type(returned).__name__}, not a model, a tuple or a dict")


def _from_mapping(given: Mapping[str, Any]) -> Subject:
    names = {each.name for each in fields(Subject)}
    unknown = sorted(set(map(str, given)) - names)
    if unknown:
        raise ValueError(f"it returned {', '.join(unknown)}; known are {', '.join(sorted(names - {'ranks'}))}")
    if not isinstance(given.get("model"), torch.nn.Module):
        raise ValueError("it returned no torch.nn.Module as the model")
    return Subject(**given)


def _sorted_by_type(parts: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        name = _role(part)
        if part is None:
            continue
        if name in found:
            raise ValueError(f"it returned two that may be the {name}: return a dict with names")
        found[name] = part
    return found


def _role(part: Any) -> str:
    if isinstance(part, torch.nn.Module):
        return "model"
    if isinstance(part, torch.optim.Optimizer):
        return "optimizer"
    if hasattr(part, "get_last_lr"):
        return "scheduler"
    return "scaler" if isinstance(part, torch.amp.GradScaler) else "batch"
