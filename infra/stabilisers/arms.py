"""What is compared: each stabiliser as its authors set it, where a toy leaves that a meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from holter.infra.demo.model import Gpt
from holter.infra.stabilisers.setting import Setting
from holter.producers.torch import clip, optim

Kind = Literal["nothing", "gradient clipper", "update clipper", "optimizer", "skipping", "going back"]
MakeOptimizer = Callable[[Gpt, dict[str, Any]], torch.optim.Optimizer]
MakeClipper = Callable[[Gpt], clip.Clipper | None]


def _adamw(model: Gpt, options: dict[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), foreach=True, **options)


def _no_clipper(model: Gpt) -> clip.Clipper | None:
    return None


@dataclass(frozen=True)
class Arm:
    name: str
    label: str
    kind: Kind
    make_clipper: MakeClipper = _no_clipper
    make_optimizer: MakeOptimizer = _adamw
    origin: str = "paper"

    def optimizer(self, model: Gpt, setting: Setting, beta2: float) -> torch.optim.Optimizer:
        rates = {"lr": setting.learning_rate, "betas": (0.9, beta2), "weight_decay": setting.weight_decay}
        return self.make_optimizer(model, rates)


def _clipper(key: str, label: str, name: str, origin: str = "", **options: Any) -> Arm:
    origin = origin or clip.CLIPPERS[name].origin
    return Arm(key, label, "gradient clipper", lambda model: clip.make(name, **options), origin=origin)


def _optimizer(key: str, label: str, kind: Kind, name: str, origin: str = "paper", **options: Any) -> Arm:
    def make(model: Gpt, rates: dict[str, Any]) -> torch.optim.Optimizer:
        return optim.make(name, model.parameters(), **rates, **options)

    return Arm(key, label, kind, make_optimizer=make, origin=origin)


_SPAM: dict[str, Any] = {"interval": 146, "warmup": 44}
"""As often in this many steps as 500 and 150 in 1,200."""

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("none", "unclipped", "nothing", origin=""),
        _clipper("globalgc", "GlobalGC 1.0", "globalgc"),
        Arm("agc", "AGC .01", "gradient clipper", lambda model: clip.make("agc", exclude=[model.tokens.weight])),
        _clipper("agc-all", "AGC .01, head too", "agc", origin="report-variant"),
        _clipper("adagc", "AdaGC .99/1.04", "adagc", warmup_steps=25),
        _clipper("zclip", "ZClip, no cap", "zclip", max_norm=None),
        _clipper("ema-mad", "EMA-MAD", "ema_mad"),
        _clipper("olmo", "OLMo per tensor, r 2", "olmo"),
        _clipper("autoclip", "AutoClip", "autoclip"),
        _optimizer("clippy", "Clippy-AdamW .5/.01", "update clipper", "clippy"),
        _optimizer("spam", "SPAM 5000/146/44", "optimizer", "spam", **_SPAM),
        _optimizer("stable-spam", "Stable-SPAM", "optimizer", "stable_spam"),
        _optimizer("msign", "MSign P 100 + AdamW", "optimizer", "msign", every=100),
        _optimizer("skip-step", "SkipStep 6σ/128", "skipping", "skip_step", "report-variant"),
        Arm("rollback", "rollback by Holter's policy", "going back", origin="report-variant"),
        Arm("rollback-ordered", "rollback as ordered", "going back", origin="report-variant"),
    )
}
GRADIENT_CLIPPERS = tuple(arm.name for arm in ARMS.values() if arm.kind == "gradient clipper")
