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
from collections.abc import Callable, Mapping, Sequence
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
_RATES = Setting(learning_rate=1e-4, weight_decay=0.01)
MODEL_30M = ModelSettings(context=128, width=512, num_layers=9, num_heads=8)


@dataclass(frozen=True)
class CostSetting:
    model: ModelSettings = MODEL_30M
    batch_size: int = 8
    num_warm_up: int = 27
    """Steps on the first gradients, so that every rule is past its own start: SPAM's 20, most clippers' 25."""
    num_rounds: int = 20
    restores_every: int = 5
    """Rounds; an MSign step that restores costs as much as many others, and one in a hundred of a run does."""


QUICK_COST = CostSetting(ModelSettings(context=16, width=32, num_layers=1), 2, 1, 2, 1)
Side = Callable[[], None]
"""Clipping and the optimizer's step, on gradients that are there."""


def measure(setting: CostSetting, told: Callable[[str], None]) -> list[Figure]:
    """The ratio of every stabiliser that has a target; ``told`` is called as each round ends."""
    torch.set_num_threads(1)
    rounds = _Rounds(setting)
    told("warming up")
    rounds.warm_up()
    for number in range(setting.num_rounds):
        rounds.run(number)
        told(f"round {number + 1} of {setting.num_rounds}")
    return [_figure(arm, target, rounds.ratios(arm), setting, rounds.size) for arm, target in TARGETS.items()]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % confidence of the median, by order statistics; of fewer than six values, their range.

    >>> median_interval([float(number) for number in range(1, 31)])
    (10.0, 21.0)
    """
    ordered, count = sorted(values), len(values)
    outside = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return ordered[outside], ordered[count - 1 - outside]


def ratios(arm: str, passes: Sequence[float], rest: Sequence[Mapping[str, float]]) -> list[float]:
    """Of the rounds that the arm took part in: a round's forward and backward pass, and what each side did after it.

    >>> ratios("zclip", [3.0, 3.0], [{"plain": 1.0, "zclip": 1.4}, {"plain": 1.0}])
    [1.1]
    """
    share = 1 / _MSIGN_EVERY if arm == "msign" else 1.0
    return [
        1.0 + share * (seconds[arm] - seconds[_PLAIN]) / (passed + seconds[_PLAIN])
        for passed, seconds in zip(passes, rest, strict=True)
        if arm in seconds
    ]


def _figure(arm: str, target: float, found: Sequence[float], setting: CostSetting, size: int) -> Figure:
    low, high = median_interval(found)
    tokens = setting.batch_size * setting.model.context
    note = f"95 % {low:.4f} to {high:.4f}, {len(found)} rounds, {size / 1e6:.1f} M parameters, {tokens} tokens"
    return Figure(f"step_cost_ratio_{arm}", statistics.median(found), "", target, note=note)


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

    def warm_up(self) -> None:
        self._pass()
        gradients = self._kept_gradients()
        for _ in range(self._setting.num_warm_up):
            for name in self._sides:
                if name != "msign":
                    self._step(name, gradients)

    def run(self, number: int) -> None:
        self._passes.append(_seconds(self._pass))
        gradients = self._kept_gradients()
        names = [name for name in self._sides if name != "msign" or number % self._setting.restores_every == 0]
        turned = names[number % len(names) :] + names[: number % len(names)]
        self._seconds.append({name: self._step(name, gradients) for name in turned})

    def _step(self, name: str, gradients: list[torch.Tensor]) -> float:
        torch._foreach_copy_([weight.grad for weight in self._parameters if weight.grad is not None], gradients)
        return _seconds(self._sides[name])

    def _kept_gradients(self) -> list[torch.Tensor]:
        return [weight.grad.clone() for weight in self._parameters if weight.grad is not None]

    def ratios(self, arm: str) -> list[float]:
        return ratios(arm, self._passes, self._seconds)

    def _pass(self) -> None:
        self._model.zero_grad(set_to_none=True)
        self._model(*self._batch).backward()

    def _plain(self) -> Side:
        optimizer = torch.optim.AdamW(
            self._parameters, lr=_RATES.learning_rate, weight_decay=_RATES.weight_decay, foreach=True
        )

        def step() -> None:
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            optimizer.step()

        return step

    def _with(self, arm: str) -> Side:
        """A clipper takes the place of ``clip_grad_norm_``; an optimizer that of AdamW, behind the same clipping."""
        clipper = ARMS[arm].make_clipper(self._model)
        optimizer = ARMS[arm].optimizer(self._model, _RATES, 0.999)
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
