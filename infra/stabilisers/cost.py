"""What a stabiliser adds to whole training steps: forward, backward, clipping and optimizer, paired in one process.

The other side is ``AdamW(foreach=True)`` with ``torch.nn.utils.clip_grad_norm_``. Both sides take their steps in turn,
each with a model of its own, and the median of the pairs' ratios counts, so that what else the machine does hits both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
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
_MSIGN_EVERY = 100
_WARM_UP_STEPS = 2


MODEL_30M = ModelSettings(context=128, width=512, num_layers=9, num_heads=8)


@dataclass(frozen=True)
class CostSetting:
    model: ModelSettings = MODEL_30M
    batch_size: int = 8
    num_pairs: int = 10


QUICK_COST = CostSetting(ModelSettings(context=16, width=32, num_layers=1), batch_size=2, num_pairs=2)
Step = Callable[[], None]


def measure(setting: CostSetting, told: Callable[[str], None]) -> list[Figure]:
    """The ratio of every stabiliser that has a target; ``told`` is called with each name as it begins."""
    torch.set_num_threads(1)
    figures = []
    for arm, target in TARGETS.items():
        told(arm)
        figures.append(_figure(arm, target, setting))
    return figures


def _figure(arm: str, target: float, setting: CostSetting) -> Figure:
    ratios = _ratios(_plain_step(setting), _step_with(arm, setting), setting.num_pairs)
    if arm == "msign":  # it was made to restore at every step; in a run it does at one of a hundred
        ratios = [1.0 + (ratio - 1.0) / _MSIGN_EVERY for ratio in ratios]
    size = sum(weight.numel() for weight in Gpt(setting.model).parameters()) / 1e6
    low, high = min(ratios), max(ratios)
    tokens = setting.batch_size * setting.model.context
    note = f"{low:.3f} to {high:.3f} over {len(ratios)} pairs, {size:.1f} M parameters, {tokens} tokens"
    return Figure(f"step_cost_ratio_{arm}", statistics.median(ratios), "", target, note=note)


def _ratios(plain: Step, other: Step, num_pairs: int) -> list[float]:
    for _ in range(_WARM_UP_STEPS):
        plain()
        other()
    ratios = []
    for number in range(num_pairs):
        order = (plain, other) if number % 2 else (other, plain)
        seconds = {step: _seconds(step) for step in order}
        ratios.append(seconds[other] / seconds[plain])
    return ratios


def _seconds(step: Step) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def _plain_step(setting: CostSetting) -> Step:
    model, batch = _model_and_batch(setting)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=True)

    def step() -> None:
        model(*batch).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _step_with(name: str, setting: CostSetting) -> Step:
    """A clipper takes the place of ``clip_grad_norm_``; an optimizer that of AdamW, and is clipped by it as well."""
    model, batch = _model_and_batch(setting)
    parameters = list(model.parameters())
    clipper = ARMS[name].make_clipper(model)
    optimizer = ARMS[name].optimizer(model, Setting(learning_rate=1e-4, weight_decay=0.01), 0.999)
    if isinstance(optimizer, MSign):
        optimizer = MSign(optimizer.base, every=1)

    def step() -> None:
        model(*batch).backward()
        if clipper is None:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        else:
            clipper.clip(parameters)
        optimizer.step()
        if clipper is not None:
            clipper.commit()
        optimizer.zero_grad(set_to_none=True)

    return step


def _model_and_batch(setting: CostSetting) -> tuple[Gpt, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    model = Gpt(setting.model)
    tokens = torch.randint(setting.model.vocabulary_size, (setting.batch_size, setting.model.context + 1))
    return model, (tokens, torch.ones(setting.batch_size))
