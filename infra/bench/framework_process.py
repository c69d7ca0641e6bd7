"""A process of one framework: ``python -m holter.infra.bench.framework_process NAME cost|memory …``, one JSON object.

The machine's own noise is greater than what Holter costs. So the same training runs twice in one process, with and
without Holter, in turns of a few steps.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from holter.infra.bench.own_time import OwnTime
from holter.infra.bench.trained import Trained, fitting_batch_size
from holter.infra.bench.turns import Side, StepSeconds, take_turns
from holter.producers import Run, init
from holter.schemas.bounds import EffectName

BLOCK_STEPS = 2
CHECKPOINT_EVERY = 10 * BLOCK_STEPS
_NUM_WARM_UP_BLOCKS = 10
_MEMORY_STEPS, _MEMORY_BATCH = 60, 4
_TORCH, _OTHER = "holter.infra.bench.torch_loops", "holter.infra.bench.loops_without_torch"

Methods = tuple[str, str, tuple[str, ...]]
"""A module, a class of it and names of its methods."""
_HOOKS: Methods = (
    "holter.producers.torch.hooks",
    "Hooks",
    ("add_loss", "see_gradients", "end_step", "_before", "_after"),
)
_GUARD: Methods = ("holter.producers.torch.guard", "Guard", ("step", "backward"))
_STEPS: tuple[Methods, ...] = (("torch.optim", "AdamW", ("step", "zero_grad")), ("torch", "Tensor", ("backward",)))
_JAX: Methods = (_OTHER, "Reports", ("end_step",))
_KERAS: Methods = ("holter.producers.integrations.keras", "HolterCallback", ("on_train_batch_end",))


class Framework(NamedTuple):
    """``own`` begin all of Holter's work on the training thread; ``steps`` are the loop's in them. A loop that
    ``applies`` something keeps its states in memory itself."""

    module: str
    loop: str
    own: Methods = _HOOKS
    steps: tuple[Methods, ...] = ()
    num_ranks: int = 1
    applies: tuple[EffectName, ...] = ()


FRAMEWORKS = {
    "guard": Framework(_TORCH, "guard", _GUARD, _STEPS),
    "hooks": Framework(_TORCH, "hooks"),
    "hooks_unclipped": Framework(_TORCH, "hooks_unclipped"),
    "huggingface": Framework(_TORCH, "huggingface"),
    "lightning": Framework(_TORCH, "lightning"),
    "accelerate": Framework(_TORCH, "accelerate"),
    "ddp": Framework(_TORCH, "ddp", num_ranks=2),
    "fsdp2": Framework(_TORCH, "fsdp2", num_ranks=2),
    "jax": Framework(_OTHER, "jax_loop", _JAX, applies=("rollback",)),
    "jax_unclipped": Framework(_OTHER, "jax_unclipped", _JAX, applies=("rollback",)),
    "keras": Framework(_OTHER, "keras_fit", _KERAS, applies=("rollback",)),
    "keras_unclipped": Framework(_OTHER, "keras_unclipped", _KERAS, applies=("rollback",)),
}


def measure_cost(name: str, num_blocks: int) -> list[dict[str, Any]]:
    """Of each block the means of both sides' steps, in seconds, and whether Holter's saves."""
    own = OwnTime()
    _watch(own, FRAMEWORKS[name])
    cpu_seconds = importlib.import_module(FRAMEWORKS[name].module).cpu_seconds
    plain, worn = (Side(BLOCK_STEPS, cpu_seconds, lambda: own.seconds) for _ in range(2))
    num_blocks += _NUM_WARM_UP_BLOCKS + 1  # the last plain one is after the last with Holter
    num_steps = BLOCK_STEPS * (num_blocks + 1)
    training, batch_size = _training(name)

    def train(side: Side) -> None:
        run = _run(name, FRAMEWORKS[name].applies) if side is worn else None
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            training(Trained(side.begin_step, num_steps, batch_size, CHECKPOINT_EVERY, Path(folder), run))
            if run is not None:
                run.finish()

    take_turns(plain, worn, train)
    return [
        {"plain": _means(one), "worn": _means(other), "saves": at % (CHECKPOINT_EVERY // BLOCK_STEPS) == 0}
        for at, (one, other) in enumerate(zip(plain.blocks(), worn.blocks(), strict=False), start=1)
    ][_NUM_WARM_UP_BLOCKS:]


def measure_memory(name: str, side: str) -> dict[str, float]:
    """The most that this process ever held, after a training alone: ``plain``, ``worn``, or ``keeping`` states too."""
    training, _ = _training(name)
    run = None if side == "plain" else _run(name, FRAMEWORKS[name].applies if side == "keeping" else ())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training(Trained(lambda: None, _MEMORY_STEPS, _MEMORY_BATCH, CHECKPOINT_EVERY, Path(folder), run))
        if run is not None:
            run.finish()
    return {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _watch(own: OwnTime, framework: Framework) -> None:
    for watch, methods in ((own.watch, (framework.own,)), (own.leave_out, framework.steps)):
        for module, owner, names in methods:
            watch(getattr(importlib.import_module(module), owner), names)


def _training(name: str) -> tuple[Callable[[Trained], None], int]:
    framework = FRAMEWORKS[name]
    module = importlib.import_module(framework.module)
    if framework.num_ranks > 1:
        module.distributed.init_process_group("gloo")
    return getattr(module, framework.loop), fitting_batch_size(module.seconds_of, module.SIZES)


def _run(name: str, applies: tuple[EffectName, ...]) -> Run:
    return init("bench", f"{name}-{os.environ.get('TORCHELASTIC_RUN_ID', time.time_ns())}", allow=applies)


def _means(steps: list[StepSeconds]) -> list[float]:
    return [sum(each) / len(steps) for each in zip(*steps, strict=True)]


def main(arguments: list[str]) -> None:
    name, kind, setting = arguments
    said = measure_cost(name, int(setting)) if kind == "cost" else measure_memory(name, setting)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1:])
