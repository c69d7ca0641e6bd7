"""Looks at a training job before it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from holter.producers.torch.preflight import (
    attention_logits,
    clip_threshold,
    output_logits,
    precision,
    rank_seeds,
    shortcut,
    sub_layers,
    warmup,
    weight_decay,
)
from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, by_severity, not_checked
from holter.producers.torch.preflight.probe import CannotTell, Layer
from holter.producers.torch.preflight.ranks import gathered_facts
from holter.producers.torch.preflight.subject import Loss, Subject

Check = Callable[[Examined], Iterator[Finding]]
CHECKS: dict[str, Check] = {
    "embedding scale": shortcut.check,
    "sub-layer scale": sub_layers.check,
    "warm-up": warmup.check,
    "precision": precision.check,
    "weight decay": weight_decay.check,
    "attention": attention_logits.check,
    "output logits": output_logits.check,
    "clip threshold": clip_threshold.check,
    "seeds of the ranks": rank_seeds.check,
}


@dataclass(frozen=True)
class Report:
    """``findings`` has all that was said, the worst first; ``layers`` what was measured of each."""

    findings: tuple[Finding, ...]
    layers: tuple[Layer, ...] = ()

    @property
    def num_serious(self) -> int:
        return sum(finding.severity == "serious" for finding in self.findings)

    @property
    def troubles(self) -> tuple[Finding, ...]:
        """What is not as it should be."""
        return tuple(each for each in self.findings if each.severity not in ("fine", "not_checked"))

    def as_dict(self) -> dict[str, Any]:
        layers = [{name: value for name, value in asdict(layer).items() if name != "gain"} for layer in self.layers]
        return {
            "num_serious": self.num_serious,
            "findings": [asdict(finding) for finding in self.findings],
            "layers": layers,
        }


def preflight(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    scheduler: Any = None,
    scaler: Any = None,
    batch: Any = None,
    loss: Loss | None = None,
    clip: float | None = None,
    steps: int | None = None,
    warmup: int | None = None,
    precision: torch.dtype | None = None,
) -> Report:
    """What of a job is known to make training unstable, each with its number, why it matters and what to do.

    Nothing is changed: no weight, gradient, mode or random state. It costs a few forward and backward passes. In a
    job of several ranks all have to call it; what is said of seeds is about all of them. What the arguments are says
    :class:`~holter.producers.torch.preflight.subject.Subject`.
    """
    ranks = gathered_facts(model)
    return examine(
        Subject(model, optimizer, scheduler, scaler, batch, loss, clip, steps, warmup, precision, ranks),
    )


def examine(subject: Subject) -> Report:
    """Every check; one that fails is not checked and stops no other."""
    examined = Examined(subject)
    findings = [finding for name, check in CHECKS.items() for finding in _said(name, check, examined)]
    return Report(by_severity(findings), _layers(examined))


def _said(name: str, check: Check, examined: Examined) -> list[Finding]:
    said: list[Finding] = []
    try:
        for finding in check(examined):
            said.append(finding)
    except CannotTell as error:
        said.append(not_checked(name, str(error)))
    return said


def _layers(examined: Examined) -> tuple[Layer, ...]:
    try:
        return tuple(examined.probe.layers)
    except CannotTell:
        return ()
