"""What ``Guard.step`` adds to a training step: the same model with and without it, in alternating short blocks.

Norms, snapshots and the saving in the background are included: every fifth block with the guard begins with a
checkpoint, and is long enough to hold its writing. The sender talks to a real broker. The plain loop neither clips
nor measures anything.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn

from holter.infra.bench.figures import Figure, mean_with_error
from holter.infra.demo.model import Gpt, ModelSettings
from holter.producers import init
from holter.producers.torch import Guard

BLOCK_STEPS = 10
_CHECKPOINT_EVERY = 50
_STEP_SECONDS = 0.05
_SETTINGS = ModelSettings(width=160, num_layers=4)


def measure(environ: dict[str, str], num_pairs: int) -> list[Figure]:
    """The mean over pairs of blocks of (with - without) / without, with a 95 % interval."""
    torch.set_num_threads(1)
    batch_size = fitting_batch_size()
    run = init("bench", f"guard-{time.time_ns()}", environ=environ)
    with tempfile.TemporaryDirectory() as folder:
        plain = _plain_block(batch_size)
        guarded = _guarded_block(batch_size, run, folder)
        for _ in range(_CHECKPOINT_EVERY // BLOCK_STEPS):  # warm up
            plain(), guarded()
        shares, steps = [], []
        for number in range(num_pairs):
            pair = (plain, guarded) if number % 2 else (guarded, plain)
            seconds = {block: block() for block in pair}
            shares.append(100.0 * (seconds[guarded] - seconds[plain]) / seconds[plain])
            steps.append(seconds[plain] / BLOCK_STEPS)
        run.finish()
    mean, error = mean_with_error(shares)
    size = sum(weight.numel() for weight in Gpt(_SETTINGS).parameters())
    note = f"± {error:.2f} (95 %), {1000 * sum(steps) / len(steps):.0f} ms steps, {size / 1e6:.1f} M parameters"
    return [Figure("guard_step_overhead_percent", mean, "%", 1.0, note=f"{note}, {num_pairs} pairs of {BLOCK_STEPS}")]


Block = Callable[[], float]


def _plain_block(batch_size: int) -> Block:
    model, optimizer, batches = make_training(batch_size)

    def block() -> float:
        begun = time.perf_counter()
        for _ in range(BLOCK_STEPS):
            model(*next(batches)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begun

    return block


def _guarded_block(batch_size: int, run: object, folder: str) -> Block:
    model, optimizer, batches = make_training(batch_size)
    guard = Guard(run, model, optimizer, checkpoints=folder, checkpoint_every=_CHECKPOINT_EVERY)  # type: ignore[arg-type]
    steps = guard.batches(batches)
    for _ in range(_CHECKPOINT_EVERY - 1):  # so that a checkpoint is the first thing in a block
        guard.backward(model(*next(steps)))
        guard.step()

    def block() -> float:
        begun = time.perf_counter()
        for _ in range(BLOCK_STEPS):
            guard.backward(model(*next(steps)))
            guard.step()
        return time.perf_counter() - begun

    return block


def make_training(
    batch_size: int,
) -> tuple[nn.Module, torch.optim.Optimizer, Iterator[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    model = Gpt(_SETTINGS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(_SETTINGS.vocabulary_size, (batch_size, _SETTINGS.context + 1))

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield tokens, torch.ones(batch_size)

    return model, optimizer, batches()


def fitting_batch_size() -> int:
    """Samples a batch that make a step of about 50 ms here."""
    sizes = (4, 16)
    seconds = [_step_seconds(size) for size in sizes]
    slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    return max(1, round(sizes[0] + (_STEP_SECONDS - seconds[0]) / slope))


def _step_seconds(batch_size: int) -> float:
    model, optimizer, batches = make_training(batch_size)
    taken = []
    for _ in range(12):
        begun = time.perf_counter()
        model(*next(batches)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        taken.append(time.perf_counter() - begun)
    return sorted(taken)[len(taken) // 2]
