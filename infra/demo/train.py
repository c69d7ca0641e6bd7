"""One arm of the demo, in a process of its own: a plain training loop that wears Holter.

Prints one JSON object a line: progress, the fault, what Holter said and did, and the final loss.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from holter import producers
from holter.infra.demo.arms import Arm
from holter.infra.demo.corpus import Batches, read_corpus
from holter.infra.demo.faults import Fault, FaultName
from holter.infra.demo.model import Gpt, ModelSettings
from holter.producers.torch import Guard
from holter.schemas.bounds import EffectName

_ALLOWED: dict[Arm, tuple[EffectName, ...]] = {
    "unhurt": (),
    "shadow": (),
    "guarded": ("nan_guard", "lr_factor", "momentum_reset", "rollback", "skip_range"),
}
_BATCH_SIZE = 16
_LEARNING_RATE = 2e-3
_WARMUP_STEPS = 30
_CHECKPOINT_EVERY = 20


def say(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, "ts": time.time_ns() // 1_000_000, **facts}), flush=True)


def schedule(num_steps: int, warmup_steps: int = _WARMUP_STEPS) -> Callable[[int], float]:
    """Linear warm-up, then a cosine to a tenth."""

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        progress = min(1.0, (step - warmup_steps) / (num_steps - warmup_steps))
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * progress))

    return factor


@torch.no_grad()
def held_out_loss(model: nn.Module, loader: Batches) -> float:
    model.eval()
    losses = [float(model(*batch)) for batch in loader.held_out(40)]
    model.train()
    return sum(losses) / len(losses)


def train(
    arm: Annotated[Arm, typer.Option()],
    run_name: Annotated[str, typer.Option()],
    checkpoints: Annotated[Path, typer.Option()],
    fault: Annotated[FaultName, typer.Option()] = "lr-burst",
    num_steps: Annotated[int, typer.Option(help="Executed steps, redone ones counted.")] = 700,
    fault_at: Annotated[int, typer.Option()] = 400,
    seed: Annotated[int, typer.Option()] = 1,
) -> None:
    """Train one arm and say how it went."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    settings = ModelSettings()
    harm = Fault("none" if arm == "unhurt" else fault, fault_at, settings.vocabulary_size)
    loader = Batches(read_corpus(), seed, _BATCH_SIZE, settings.context, harm.hurt_batch)
    model = Gpt(settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = LambdaLR(optimizer, schedule(num_steps))
    harm.attach(optimizer)

    run = producers.init(project="demo", run=run_name, config={"arm": arm, "fault": harm.name, "seed": seed})
    guard = Guard(
        run, model, optimizer, scheduler=scheduler, checkpoints=checkpoints, checkpoint_every=_CHECKPOINT_EVERY,
        allow=_ALLOWED[arm],
    )  # fmt: skip
    executed = 0
    for tokens, weights in guard.batches(loader, until=num_steps):
        if harm.strikes(executed, loader.state_dict()["next"] - 1):
            say("fault", step=guard.last_step + 1)
        loss = model(tokens, weights)
        guard.backward(loss)
        guard.step()
        executed += 1
        if executed % 10 == 0:
            say("progress", executed=executed, step=guard.last_step, loss=float(loss.detach()))
        if executed == num_steps:
            break
    say("result", final_loss=held_out_loss(model, loader), steps_lost=executed - guard.last_step, executed=executed)
    run.finish()
    say("stats", **run.stats())


if __name__ == "__main__":
    typer.run(train)
