"""Whether the learning rate rises slowly enough for Adam's second moments to be known."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, fine, not_checked
from holter.producers.torch.preflight.quietly import reason
from holter.producers.torch.preflight.subject import Subject

NAME = "warm-up"
_MOST_STEPS = 20_000
_LOW_RATE = 1e-4
_WHY = (
    "Adam's first updates are of size lr whatever the gradient is, and rest on a few gradients; "
    "2 / (1 - β2) steps of linear warm-up are the rule of Ma & Yarats (2021, 1910.04209)"
)


def check(examined: Examined) -> Iterator[Finding]:
    subject = examined.subject
    betas = subject.betas()
    if betas is None or subject.optimizer is None:
        yield not_checked(NAME, "no optimizer of the Adam family was given")
        return
    if subject.scheduler is None and subject.warmup is None:
        yield not_checked(NAME, "no scheduler was given; say warmup=, 0 where the loop does not raise the rate either")
        return
    most = subject.steps // 10 if subject.steps else _MOST_STEPS
    wanted = min(math.ceil(round(2.0 / (1.0 - betas[1]), 6)), most)
    try:
        num_steps, peak = _warm_up(subject)
    except Exception as error:  # whatever a stranger's scheduler raises
        yield not_checked(NAME, f"the scheduler could not be played through: {reason(error)}")
        return
    yield _judged(num_steps, peak, wanted, betas[1])


def _judged(num_steps: int, peak: float, wanted: int, beta: float) -> Finding:
    what = f"the rate is at its peak of {peak:.3g} after {num_steps} steps; β2 = {beta:g} asks for {wanted}"
    if 2 * num_steps >= wanted or peak < _LOW_RATE:
        return fine(NAME, what, num_steps, wanted)
    fix = f"warm up over {wanted} steps, from near zero"
    return Finding(NAME, "serious" if num_steps <= 1 else "warning", what, num_steps, wanted, _WHY, fix)


def _warm_up(subject: Subject) -> tuple[int, float]:
    """After how many steps the rate is at its highest, and what it is then."""
    if subject.optimizer is None:
        return 0, 0.0
    rates = learning_rates(subject.optimizer, subject.scheduler, min(_MOST_STEPS, subject.steps or _MOST_STEPS))
    peak = max(rates)
    reached = next(step for step, rate in enumerate(rates) if rate >= 0.999 * peak)
    return reached if subject.warmup is None else subject.warmup, peak


def learning_rates(optimizer: torch.optim.Optimizer, scheduler: Any, num_steps: int) -> list[float]:
    """Of the first group at each step, by a copy of the scheduler; the optimizer's own where there is none."""
    stand_in = _stand_in(optimizer)
    if scheduler is None:
        return [float(stand_in.param_groups[0]["lr"])]
    played = copy.deepcopy(scheduler, {id(optimizer): stand_in})
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it steps before an optimizer that never does
        for _ in range(num_steps):
            rates.append(float(stand_in.param_groups[0]["lr"]))
            try:
                played.step()
            except ValueError:  # OneCycleLR at the end of its cycle
                break
    return rates


def _stand_in(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Has the same groups of no weights."""
    weight = torch.nn.Parameter(torch.zeros(1))
    stand_in = torch.optim.SGD([weight], lr=0.0)
    stand_in.param_groups[:] = [
        {**{name: copy.deepcopy(value) for name, value in group.items() if name != "params"}, "params": [weight]}
        for group in optimizer.param_groups
    ]
    return stand_in
