"""What a stabiliser adds to whole training steps: forward, backward, clipping and optimizer, paired in one process.

The other side is ``AdamW(foreach=True)`` with ``torch.nn.utils.clip_grad_norm_``. Forward and backward are the same
program on both sides: a round runs them once and counts them on every side, then each side clips the same gradients
and steps, in an order that turns from round to round. The median of the rounds' ratios counts, in processor time, so
that what else the machine does hits all sides alike and waiting hits none.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from holter.infra.bench.figures import Figure
from holter.infra.demo.model import Gpt, ModelSettings
from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.setting import Setting
from holter.producers.torch.optim import MSign

TARGETS = {
    "globalgc": 1.02,
    "zclip": 1.02,
    "ema-mad": 1.02,
    "agc": 1.05,
    "adagc": 1.05,
    "clippy": 1.15,
    "spam": 1.15,
    "msign": 1.10,
}
_PLAIN = "plain"
_MSIGN_EVERY = 100
_RATES = {"lr": 1e-4, "weight_decay": 0.01}
MODEL_30M = ModelSettings(context=128, width=512, num_layers=9, num_heads=8)


@dataclass(frozen=True)
class CostSetting:
    model: ModelSettings = MODEL_30M
    batch_size: int = 8
    num_warm_up: int = 3
    num_rounds: int = 30
    restores_every: int = 10
    """Rounds; an MSign step that restores costs as much as many others, and one in a hundred of a run does."""


QUICK_COST = CostSetting(ModelSettings(context=16, width=32, num_layers=1), 2, 1, 2, 1)
Side = Callable[[], None]
"""Clipping and the optimizer's step, on gradients that are there."""


def measure(setting: CostSetting, told: Callable[[str], None]) -> list[Figure]:
    """The ratio of every stabiliser that has a target; ``told`` is called as each round ends."""
    torch.set_num_threads(1)
    rounds = _Rounds(setting)
    for number in range(setting.num_warm_up + setting.num_rounds):
        rounds.run(number, is_counted=number >= setting.num_warm_up)
        told(f"round {number + 1} of {setting.num_warm_up + setting.num_rounds}")
    return [_figure(arm, target, rounds.ratios(arm), setting, rounds.size) for arm, target in TARGETS.items()]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % confidence of the median, by order statistics; of fewer than six values, their range.

    >>> median_interval([float(number) for number in range(1, 31)])
    (10.0, 21.0)
    """
    ordered, count = sorted(values), len(values)
    outside = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return ordered[outside], ordered[count - 1 - outside]


def _figure(arm: str, target: float, ratios: Sequence[float], setting: CostSetting, size: int) -> Figure:
    low, high = median_interval(ratios)
    tokens = setting.batch_size * setting.model.context
    note = f"95 % {low:.4f} to {high:.4f}, {len(ratios)} rounds, {size / 1e6:.1f} M parameters, {tokens} tokens"
    return Figure(f"step_cost_ratio_{arm}", statistics.median(ratios), "", target, note=note)


class _Rounds:
    def __init__(self, setting: CostSetting) -> None:
        torch.manual_seed(0)
        self._setting = setting
        self._model = Gpt(setting.model)
        self._parameters = list(self._model.parameters())
        self.size = sum(weight.numel() for weight in self._parameters)
        tokens = torch.randint(setting.model.vocabulary_size, (setting.batch_size, setting.model.context + 1))
        self._batch = tokens, torch.ones(setting.batch_size)
        self._sides = {_PLAIN: self._plain()} | {arm: self._with(arm) for arm in TARGETS}
        self._passes: list[float] = []
        self._seconds: list[dict[str, float]] = []

    def run(self, number: int, is_counted: bool) -> None:
        passed = _seconds(self._pass)
        gradients = [weight.grad.clone() for weight in self._parameters if weight.grad is not None]
        names = [name for name in self._sides if name != "msign" or number % self._setting.restores_every == 0]
        turned = names[number % len(names) :] + names[: number % len(names)]
        seconds = {}
        for name in turned:
            torch._foreach_copy_([weight.grad for weight in self._parameters], gradients)
            seconds[name] = _seconds(self._sides[name])
        if is_counted:
            self._passes.append(passed)
            self._seconds.append(seconds)

    def ratios(self, arm: str) -> list[float]:
        """Of the rounds that the arm took part in."""
        share = 1 / _MSIGN_EVERY if arm == "msign" else 1.0
        return [
            1.0 + share * (seconds[arm] - seconds[_PLAIN]) / (passed + seconds[_PLAIN])
            for passed, seconds in zip(self._passes, self._seconds, strict=True)
            if arm in seconds
        ]

    def _pass(self) -> None:
        self._model.zero_grad(set_to_none=True)
        self._model(*self._batch).backward()

    def _plain(self) -> Side:
        optimizer = torch.optim.AdamW(self._parameters, foreach=True, **_RATES)

        def step() -> None:
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            optimizer.step()

        return step

    def _with(self, arm: str) -> Side:
        """A clipper takes the place of ``clip_grad_norm_``; an optimizer that of AdamW, and is clipped by it as well."""
        clipper = ARMS[arm].make_clipper(self._model)
        rates = Setting(learning_rate=_RATES["lr"], weight_decay=_RATES["weight_decay"])
        optimizer = ARMS[arm].optimizer(self._model, rates, 0.999)
        if isinstance(optimizer, MSign):
            optimizer = MSign(optimizer.base, every=1)  # in a run it restores at one step of a hundred

        def step() -> None:
            if clipper is None:
                torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            else:
                clipper.clip(self._parameters)
            optimizer.step()
            if clipper is not None:
                clipper.commit()

        return step


def _seconds(step: Callable[[], None]) -> float:
    begun = time.process_time()
    step()
    return time.process_time() - begun
