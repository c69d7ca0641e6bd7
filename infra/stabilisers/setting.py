"""The toy that every stabiliser is measured in, and the ways in which it is hurt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holter.infra.demo.model import ModelSettings

FaultName = Literal["clean", "gradient", "data", "lr"]
FAULTS: tuple[FaultName, ...] = get_args(FaultName)
BETA2S = (0.95, 0.999)
SEEDS = (0, 1, 2)
Cell = tuple[FaultName, float]
"""A fault and a β2: a column of the table."""
CELLS: tuple[Cell, ...] = (
    ("clean", 0.999),
    ("gradient", 0.999),
    ("clean", 0.95),
    ("lr", 0.95),
    ("data", 0.95),
    ("lr", 0.999),
    ("gradient", 0.95),
    ("data", 0.999),
)
"""Every fault under every β2, in the order in which they are measured: what has a target comes first."""


@dataclass(frozen=True)
class Setting:
    """A small GPT on source text, a byte a token; AdamW, cosine learning rate. 512 tokens a step are thousands of times
    fewer than real runs have: gradient norms scatter far more here, which costs rules that follow them closely."""

    num_steps: int = 350
    batch_size: int = 16
    context: int = 32
    width: int = 48
    num_layers: int = 2
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    num_held_out: int = 16
    """Batches of text that is never trained on, the same for all."""

    def model(self) -> ModelSettings:
        return ModelSettings(context=self.context, width=self.width, num_layers=self.num_layers)

    def described(self) -> str:
        tokens = self.batch_size * self.context
        size = f"GPT {self.num_layers}L d{self.width}, {tokens} tokens a step, {self.num_steps} steps"
        return f"{size}, lr {self.learning_rate:g} cosine"


TOY = Setting()
LONG = Setting(num_steps=1200, context=64, width=64, num_layers=3)
"""Five times the work of a step and three times as many: there is time to come back from what a burst did."""
QUICK = Setting(num_steps=30, batch_size=4, context=16, width=16, num_layers=1, num_held_out=2)
"""For a look at whether everything runs; its numbers say nothing."""


@dataclass(frozen=True)
class OrderingSetting:
    """CheckFree's: a deeper model in four stages, which one after another are lost and made again."""

    toy: Setting = Setting(num_steps=1200, batch_size=8, num_layers=8)
    num_stages: int = 4
    lost_at: tuple[float, ...] = (0.33, 0.46, 0.6, 0.73, 0.86)
    """As shares of the run; the two inner stages in turn."""


ORDERING = OrderingSetting()
QUICK_ORDERING = OrderingSetting(Setting(10, 4, 16, 16, 4, num_held_out=2))
