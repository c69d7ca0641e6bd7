"""What a stabiliser adds to whole training steps: forward, backward, clipping and optimizer, paired in one process.

The other side is ``AdamW(foreach=True)`` with ``torch.nn.utils.clip_grad_norm_``. In a round every side takes one whole
step on the same weights and the same batch, the plain side two, in an order that turns from round to round; a step is
held against the plain ones of its own round, and the median of the rounds counts. It is processor time, so that waiting
for a core counts on no side. Forward and backward are the same program on all sides but scatter by some percent, more
than most stabilisers cost; so what clipping and optimizer alone add, timed in the same steps, is told beside it.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
_RESTORING = "msign-restoring"
_MSIGN_EVERY = 100
_RATES = Setting(learning_rate=1e-4, weight_decay=0.01)
MODEL_30M = ModelSettings(context=128, width=512, num_layers=9, num_heads=8)


@dataclass(frozen=True)
class CostSetting:
    model: ModelSettings = MODEL_30M
    batch_size: int = 8
    num_warm_up: int = 27
    """Clippings and updates on the first gradients, so that every rule is past its own start: SPAM's 20, others' 25."""
    num_rounds: int = 20
    restores_every: int = 5
    """Rounds; an MSign step that restores costs as much as several others, and one in a hundred of a run does."""


QUICK_COST = CostSetting(ModelSettings(context=16, width=32, num_layers=1), 2, 1, 2, 1)
Update = Callable[[], None]
"""Clipping and the optimizer's step, on gradients that are there."""


class Timed(NamedTuple):
    """Processor seconds of a step."""

    whole: float
    update: float
    """Of it, clipping and the optimizer's step."""


Round = Mapping[str, Sequence[Timed]]
"""What each side took, by its name."""


def measure(setting: CostSetting, told: Callable[[str], None]) -> list[Figure]:
    """The ratio of every stabiliser that has a target; ``told`` is called as each round ends."""
    torch.set_num_threads(1)
    steps = _Steps(setting)
    told("warming up")
    steps.warm_up()
    rounds = []
    for number in range(setting.num_rounds):
        rounds.append(steps.take_round(number))
        told(f"round {number + 1} of {setting.num_rounds}")
    return [_figure(arm, target, rounds, setting, steps.size) for arm, target in TARGETS.items()]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % confidence of the median, by order statistics; of fewer than six values, their range.

    >>> median_interval([float(number) for number in range(1, 31)])
    (10.0, 21.0)
    """
    ordered, count = sorted(values), len(values)
    outside = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return ordered[outside], ordered[count - 1 - outside]


def whole_ratios(rounds: Sequence[Round], side: str) -> list[float]:
    """A whole step of a side over the plain ones of its round; rounds that it did not take part in are left out.

    >>> whole_ratios([{"plain": [Timed(3.0, 1.0), Timed(5.0, 1.0)], "zclip": [Timed(4.4, 1.0)]}], "zclip")
    [1.1]
    """
    return [_mean_whole(each[side]) / _mean_whole(each[_PLAIN]) for each in rounds if side in each]


def update_ratios(rounds: Sequence[Round], side: str) -> list[float]:
    """The same where only clipping and optimizer differ, and a step is otherwise as long as the plain ones.

    >>> update_ratios([{"plain": [Timed(4.0, 1.0)], "zclip": [Timed(9.0, 1.4)]}], "zclip")
    [1.1]
    """
    return [
        1.0 + (_mean_update(each[side]) - _mean_update(each[_PLAIN])) / _mean_whole(each[_PLAIN])
        for each in rounds
        if side in each
    ]


def with_restorations(ordinary: Sequence[float], restoring: Sequence[float]) -> list[float]:
    """Ratios of a run in which one step in a hundred restores.

    >>> with_restorations([1.0, 1.02], [3.0, 2.0, 4.0])
    [1.02, 1.0398]
    """
    share = 1 / _MSIGN_EVERY
    return [(1.0 - share) * each + share * statistics.median(restoring) for each in ordinary]


def _figure(arm: str, target: float, rounds: Sequence[Round], setting: CostSetting, size: int) -> Figure:
    found, by_update = whole_ratios(rounds, arm), update_ratios(rounds, arm)
    if arm == "msign":
        found = with_restorations(found, whole_ratios(rounds, _RESTORING))
        by_update = with_restorations(by_update, update_ratios(rounds, _RESTORING))
    (low, high), (least, most) = median_interval(found), median_interval(by_update)
    tokens = setting.batch_size * setting.model.context
    note = (
        f"95 % {low:.3f} to {high:.3f}; clipping and optimizer alone {statistics.median(by_update):.4f} "
        f"({least:.4f} to {most:.4f}); {len(found)} rounds, {size / 1e6:.1f} M parameters, {tokens} tokens"
    )
    return Figure(f"step_cost_ratio_{arm}", statistics.median(found), "", target, note=note)


def _mean_whole(steps: Sequence[Timed]) -> float:
    return statistics.fmean(each.whole for each in steps)


def _mean_update(steps: Sequence[Timed]) -> float:
    return statistics.fmean(each.update for each in steps)


class _Steps:
    """Every side with an optimizer of its own over the weights of one model."""

    def __init__(self, setting: CostSetting) -> None:
        torch.manual_seed(0)
        self._setting = setting
        self._model = Gpt(setting.model)
        self._parameters = list(self._model.parameters())
        self.size = sum(weight.numel() for weight in self._parameters)
        tokens = torch.randint(setting.model.vocabulary_size, (setting.batch_size, setting.model.context + 1))
        self._batch = tokens, torch.ones(setting.batch_size)
        self._updates = {_PLAIN: self._plain()} | {arm: self._with(arm) for arm in TARGETS}
        self._updates[_RESTORING] = self._with("msign", msign_every=1)

    def warm_up(self) -> None:
        self._pass()
        gradients = [weight.grad.clone() for weight in self._parameters if weight.grad is not None]
        for name in [name for name in self._updates if name != _RESTORING] * self._setting.num_warm_up:
            torch._foreach_copy_([weight.grad for weight in self._parameters if weight.grad is not None], gradients)
            self._updates[name]()

    def take_round(self, number: int) -> Round:
        """Plain first and half-way, before the whole order is turned."""
        names = [*TARGETS]
        if number % self._setting.restores_every == 0:
            names.append(_RESTORING)
        half = len(names) // 2
        order = [_PLAIN, *names[:half], _PLAIN, *names[half:]]
        at = number % len(order)
        found: dict[str, list[Timed]] = {}
        for name in order[at:] + order[:at]:
            found.setdefault(name, []).append(self._timed(self._updates[name]))
        return found

    def _timed(self, update: Update) -> Timed:
        begun = time.process_time()
        self._pass()
        passed = time.process_time()
        update()
        ended = time.process_time()
        return Timed(ended - begun, ended - passed)

    def _pass(self) -> None:
        self._model.zero_grad(set_to_none=True)
        self._model(*self._batch).backward()

    def _plain(self) -> Update:
        optimizer = torch.optim.AdamW(
            self._parameters, lr=_RATES.learning_rate, weight_decay=_RATES.weight_decay, foreach=True
        )

        def update() -> None:
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            optimizer.step()

        return update

    def _with(self, arm: str, msign_every: int = _MSIGN_EVERY) -> Update:
        """A clipper takes the place of ``clip_grad_norm_``; an optimizer that of AdamW, behind the same clipping."""
        clipper = ARMS[arm].make_clipper(self._model)
        optimizer = ARMS[arm].optimizer(self._model, _RATES, 0.999)
        if isinstance(optimizer, MSign):
            optimizer = MSign(optimizer.base, every=msign_every)

        def update() -> None:
            if clipper is None:
                torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            else:
                clipper.clip(self._parameters)
            optimizer.step()
            if clipper is not None:
                clipper.commit()

        return update
