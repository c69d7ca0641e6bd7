"""Everybody's rows."""

from __future__ import annotations

from tests.scoreboard.rule import Rule
from tests.scoreboard.rules import (
    axlearn,
    lightning,
    llm_foundry,
    mean_and_median,
    megatron,
    olmo_score,
    olmo_skip,
    qwen,
    wandb_zscore,
    zclip,
    zscore_skip,
)
from tests.scoreboard.rules.holter import Holter

PEERS: tuple[Rule, ...] = (
    mean_and_median.FIVE,
    mean_and_median.THREE,
    lightning.RULE,
    zscore_skip.RULE,
    olmo_skip.RULE,
    olmo_score.RULE,
    axlearn.RULE,
    wandb_zscore.RULE,
    zclip.RULE,
    llm_foundry.RULE,
    megatron.RULE,
    qwen.RULE,
)
RULES: tuple[Rule, ...] = (Holter(), Holter("Holter, policy report", "report"), *PEERS)
