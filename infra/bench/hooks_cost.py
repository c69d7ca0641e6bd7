"""What ``Hooks`` adds to a step that the loop takes itself: the same model with and without, in alternating blocks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

import torch

from holter.infra.bench.figures import Figure, mean_with_error
from holter.infra.bench.guard_cost import BLOCK_STEPS, Block, fitting_batch_size, make_training
from holter.producers import Run, init
from holter.producers.torch import Hooks

_CHECKPOINT_EVERY = 50


def measure(environ: dict[str, str], num_pairs: int) -> list[Figure]:
    """The mean over pairs of blocks of (with - without) / without, with a 95 % interval."""
    torch.set_num_threads(1)
    batch_size = fitting_batch_size()
    run = init("bench", f"hooks-{time.time_ns()}", environ=environ)
    with tempfile.TemporaryDirectory() as folder:
        plain = _block(batch_size, None, folder)
        hooked = _block(batch_size, run, folder)
        shares, steps = [], []
        for number in range(num_pairs + _CHECKPOINT_EVERY // BLOCK_STEPS):
            pair = (plain, hooked) if number % 2 else (hooked, plain)
            seconds = {block: block() for block in pair}
            if number >= _CHECKPOINT_EVERY // BLOCK_STEPS:  # those before warm up
                shares.append(100.0 * (seconds[hooked] - seconds[plain]) / seconds[plain])
                steps.append(seconds[plain] / BLOCK_STEPS)
        run.finish()
    mean, error = mean_with_error(shares)
    note = f"± {error:.2f} (95 %), {1000 * sum(steps) / len(steps):.0f} ms steps, {num_pairs} pairs of {BLOCK_STEPS}"
    return [Figure("hooks_step_overhead_percent", mean, "%", 1.0, note=note)]


def _block(batch_size: int, run: Run | None, folder: str) -> Block:
    model, optimizer, batches = make_training(batch_size)
    add_loss: Callable[[torch.Tensor], None] | None = None
    if run is not None:
        add_loss = Hooks(run, model, optimizer, checkpoints=folder, checkpoint_every=_CHECKPOINT_EVERY).add_loss

    def block() -> float:
        begun = time.perf_counter()
        for _ in range(BLOCK_STEPS):
            loss = model(*next(batches))
            if add_loss is not None:
                add_loss(loss)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begun

    return block
