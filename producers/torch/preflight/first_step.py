"""The loss and the gradients of one batch, before anything was trained."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from holter.producers.torch.preflight.anatomy import Anatomy
from holter.producers.torch.preflight.probe import CannotTell
from holter.producers.torch.preflight.quietly import quietly, reason
from holter.producers.torch.preflight.subject import Subject

_SHIFT = 8.0
_TARGETS = frozenset({"targets", "target", "labels", "label", "y"})


@dataclass(frozen=True)
class FirstStep:
    """``rms`` is of every parameter's gradient. ``shift`` is what adding 8 to all logits does to the loss; NaN where
    the logits are not seen."""

    loss: float
    grad_norm: float
    rms: Mapping[str, float]
    shift: float


def first_step(subject: Subject, anatomy: Anatomy) -> FirstStep:
    """Raises :class:`CannotTell` where the loss of the batch is not to be had."""
    if subject.batch is None:
        raise CannotTell("no batch was given")
    with quietly(subject.model):
        loss = _loss_of(subject)
        named = [(name, each) for name, each in subject.model.named_parameters() if each.requires_grad]
        gradients = torch.autograd.grad(loss, [each for _, each in named], allow_unused=True)
        present = {
            name: gradient.float()
            for (name, _), gradient in zip(named, gradients, strict=True)
            if gradient is not None and gradient.numel()
        }
        norms = {name: float(torch.linalg.vector_norm(gradient)) for name, gradient in present.items()}
        rms = {name: norm / present[name].numel() ** 0.5 for name, norm in norms.items()}
        shift = _shift(subject, anatomy.head, loss.item())
    return FirstStep(loss.item(), math.hypot(*norms.values()) if norms else 0.0, rms, shift)


def _loss_of(subject: Subject) -> torch.Tensor:
    try:
        with _autocast(subject):
            loss = (subject.loss or model_loss)(subject.model, subject.batch)
    except CannotTell:
        raise
    except Exception as error:  # whatever a stranger's loss raises
        raise CannotTell(f"the loss of the batch: {reason(error)}") from error
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise CannotTell("the loss of the batch is no scalar that depends on the weights")
    return loss.reshape(())


def model_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """The model's own loss, else cross-entropy against the second of a batch of two.

    Raises:
        CannotTell: it is neither; ``loss=`` says what it is.
    """
    output = call(model, batch)
    named = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    parts = [named, output, *(output if isinstance(output, (tuple, list)) else ())]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    for tensor in tensors:
        if tensor.numel() == 1:
            return tensor
    is_pair = isinstance(batch, (tuple, list)) and len(batch) == 2 and isinstance(batch[1], torch.Tensor)
    if tensors and is_pair and batch[1].dtype == torch.long and tensors[0].shape[:-1] == batch[1].shape:
        logits = tensors[0]
        return functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), batch[1].reshape(-1))
    raise CannotTell("the model returns no loss, and none was given")


def call(model: nn.Module, batch: Any) -> Any:
    """With keywords, with as many of a sequence's elements as its forward takes, or with the batch itself."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if not isinstance(batch, (tuple, list)):
        return model(batch)
    return model(*_accepted(model, batch))


def _accepted(model: nn.Module, batch: Sequence[Any]) -> Sequence[Any]:
    parameters = inspect.signature(model.forward).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return batch
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    # The second of transformers' forwards is a mask: only one that is called a target is given the targets.
    is_target = len(places) > 1 and places[1].name in _TARGETS
    required = sum(each.default is each.empty for each in places)
    return batch[: max(required, 2 if is_target else 1)]


def _shift(subject: Subject, head: nn.Module | None, loss: float) -> float:
    if head is None:
        return math.nan
    seen: list[bool] = []

    def raise_logits(_: nn.Module, __: Any, logits: torch.Tensor) -> torch.Tensor:
        seen.append(True)
        return logits + _SHIFT

    handle = head.register_forward_hook(raise_logits)
    try:
        raised = _loss_of(subject).item()
    finally:
        handle.remove()
    return raised - loss if seen else math.nan


def _autocast(subject: Subject) -> torch.autocast:
    device = next(subject.model.parameters()).device.type
    return torch.autocast(device, dtype=subject.precision, enabled=subject.precision is not None)
