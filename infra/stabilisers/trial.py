"""One training run of the toy: an arm, a fault, a β2, a seed."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import torch
from msgspec import Struct

from holter.infra.demo.corpus import Batch, Batches, read_corpus
from holter.infra.demo.model import Gpt
from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.faults import Fault
from holter.infra.stabilisers.going_back import Decider, GoingBack, Ordered
from holter.infra.stabilisers.policy_run import ByPolicy
from holter.infra.stabilisers.setting import FaultName, Setting
from holter.producers.torch.clip import Clipper, GlobalGC
from holter.producers.torch.optim import SkipStep

_MAX_EXECUTED = 2
"""Times the run's length; a run that goes back for ever ends there."""
_SMOOTH = 10
_AVERAGED = 25


class Trial(NamedTuple):
    arm: str
    fault: FaultName
    beta2: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.arm}--{self.fault}--{self.beta2:g}--{self.seed}"


class TrialResult(Struct, frozen=True):
    loss: float | None
    """Held out, in nats, at the end; None where it is not finite."""
    num_repeated: int
    """Steps executed again after going back."""
    num_skipped: int
    recovery_steps: int | None
    """After a learning rate burst, executed steps until the mean loss of ten is back where it was; None: never."""
    cpu_seconds: float


def run_trial(trial: Trial, setting: Setting) -> TrialResult:
    """In this thread alone; the same numbers for the same trial and torch build."""
    torch.set_num_threads(1)
    begun = time.thread_time()
    training = _Training(trial, setting)
    training.run()
    loss = training.held_out_loss()
    return TrialResult(
        loss=loss if math.isfinite(loss) else None,
        num_repeated=len(training.losses) - setting.num_steps,
        num_skipped=training.num_skipped,
        recovery_steps=steps_to_recover(training.losses, training.fault.last_struck),
        cpu_seconds=time.thread_time() - begun,
    )


def steps_to_recover(losses: list[float], last_struck: int | None) -> int | None:
    """How long after ``last_struck`` the mean of ten losses is no higher than that of 25 before the burst.

    >>> steps_to_recover([2.0] * 60 + [5.0] * 5 + [3.0] * 10 + [1.0] * 30, 64)
    15
    """
    if last_struck is None:
        return None
    before = losses[max(0, last_struck - 4 - _AVERAGED) : last_struck - 4]
    for end in range(last_struck + 1 + _SMOOTH, len(losses) + 1):
        if math.fsum(losses[end - _SMOOTH : end]) / _SMOOTH <= math.fsum(before) / max(1, len(before)):
            return end - last_struck - 1
    return None


class _Training:
    def __init__(self, trial: Trial, setting: Setting) -> None:
        torch.manual_seed(trial.seed)
        arm = ARMS[trial.arm]
        self._setting = setting
        self.fault = Fault(trial.fault, setting.num_steps, trial.seed)
        self._model = Gpt(setting.model())
        self._parameters = list(self._model.parameters())
        self._optimizer = arm.optimizer(self._model, setting, trial.beta2)
        self._clipper: Clipper = arm.make_clipper(self._model) or GlobalGC(math.inf)
        self._going_back = self._who_goes_back(trial.arm) if arm.kind == "going back" else None
        self._batches = Batches(read_corpus(), trial.seed, setting.batch_size, setting.context, unhurt)
        self.losses: list[float] = []

    @property
    def num_skipped(self) -> int:
        if not isinstance(self._optimizer, SkipStep):
            return 0
        return int(self._optimizer.num_skipped + self._optimizer.num_nonfinite)

    def run(self) -> None:
        step, batches = 0, iter(self._batches)
        while step < self._setting.num_steps and len(self.losses) < _MAX_EXECUTED * self._setting.num_steps:
            if self._going_back is not None:
                self._going_back.keep_if_due(step)
            loss, norm = self._take(step, next(batches))
            self.losses.append(loss)
            step = step + 1 if self._going_back is None else self._going_back.go_on_after(step + 1, loss, norm)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        losses = [float(self._model(*batch)) for batch in self._batches.held_out(self._setting.num_held_out)]
        return math.fsum(losses) / len(losses)

    def _take(self, step: int, batch: Batch) -> tuple[float, float]:
        executed = len(self.losses)
        loss = self._model(*self.fault.hurt_batch(executed, batch))
        loss.backward()
        self.fault.hurt_gradients(executed, self._parameters)
        report = self._clipper.clip(self._parameters)
        if isinstance(self._optimizer, SkipStep):
            self._optimizer.observe(loss, report.norm_before)
        self._set_rate(step, executed)
        self._optimizer.step()
        self._clipper.commit(report.is_finite)
        self._optimizer.zero_grad(set_to_none=True)
        return loss.item(), report.norm_before.item()

    def _who_goes_back(self, arm: str) -> GoingBack:
        decider: Decider = Ordered(self.fault) if arm == "rollback-ordered" else ByPolicy()
        return GoingBack(self._model, self._optimizer, decider)

    def _set_rate(self, step: int, executed: int) -> None:
        rate = cosine(step, self._setting) * self.fault.rate_factor(executed)
        for group in self._optimizer.param_groups:
            group["lr"] = rate


def cosine(step: int, setting: Setting) -> float:
    return setting.learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / setting.num_steps))


def unhurt(index: int, batch: Batch) -> Batch:
    return batch
