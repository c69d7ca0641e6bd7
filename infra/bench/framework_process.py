"""A process of one framework: ``python -m holter.infra.bench.framework_process NAME cost|memory …``, one JSON object.

The machine's own noise is greater than what Holter costs. So steps with and without Holter take turns in one process:
of one training where Holter's calls can be left out, else of the same training twice.
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
from holter.infra.bench.switched import COUNTED_SAVING_STEPS, SAVE_EVERY, Switched, num_steps_of
from holter.infra.bench.trained import Trained, fitting_batch_size
from holter.infra.bench.turns import Side, StepSeconds, take_turns
from holter.producers import Run, init
from holter.schemas.bounds import EffectName

_TWIN_BLOCK_STEPS, _TWIN_SAVE_EVERY = 2, 20
_NUM_WARM_UP_BLOCKS = 12
_MEMORY_STEPS, _MEMORY_BATCH = 60, 4
_TORCH, _OTHER = "holter.infra.bench.torch_loops", "holter.infra.bench.loops_without_torch"

Methods = tuple[str, str, tuple[str, ...]]
"""A module, a class of it and names of its methods."""
Means = list[StepSeconds]
"""Of the steps of each turn."""
Training = Callable[[Trained], None]
_HOOKS: Methods = (
    "holter.producers.torch.hooks",
    "Hooks",
    ("add_loss", "see_gradients", "end_step", "_before", "_after"),
)
_HUGGINGFACE: Methods = (
    "holter.producers.integrations.huggingface",
    "HolterCallback",
    ("on_pre_optimizer_step", "on_step_end", "_hear_loss"),
)
_LIGHTNING: Methods = (
    "holter.producers.integrations.lightning",
    "HolterCallback",
    ("on_before_backward", "on_before_optimizer_step", "on_train_batch_end"),
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
    own: tuple[Methods, ...]
    steps: tuple[Methods, ...] = ()
    num_ranks: int = 1
    applies: tuple[EffectName, ...] = ()

    @property
    def is_switched(self) -> bool:
        """Whether its steps are whole without Holter's calls: not where these take them or are compiled into them."""
        return _HOOKS in self.own

    @property
    def saving_steps(self) -> int:
        """Steps of a block with a checkpoint, over which what that costs is spread."""
        return COUNTED_SAVING_STEPS if self.is_switched else _TWIN_BLOCK_STEPS


FRAMEWORKS = {
    "guard": Framework(_TORCH, "guard", (_GUARD,), _STEPS),
    "hooks": Framework(_TORCH, "hooks", (_HOOKS,)),
    "hooks_unclipped": Framework(_TORCH, "hooks_unclipped", (_HOOKS,)),
    "huggingface": Framework(_TORCH, "huggingface", (_HOOKS, _HUGGINGFACE)),
    "lightning": Framework(_TORCH, "lightning", (_HOOKS, _LIGHTNING)),
    "accelerate": Framework(_TORCH, "accelerate", (_HOOKS,)),
    "ddp": Framework(_TORCH, "ddp", (_HOOKS,), num_ranks=2),
    "fsdp2": Framework(_TORCH, "fsdp2", (_HOOKS,), num_ranks=2),
    "jax": Framework(_OTHER, "jax_loop", (_JAX,), applies=("rollback",)),
    "jax_unclipped": Framework(_OTHER, "jax_unclipped", (_JAX,), applies=("rollback",)),
    "keras": Framework(_OTHER, "keras_fit", (_KERAS,), applies=("rollback",)),
    "keras_unclipped": Framework(_OTHER, "keras_unclipped", (_KERAS,), applies=("rollback",)),
}


def measure_cost(name: str, num_blocks: int) -> list[dict[str, Any]]:
    """Of each block the means of both sides' steps, in seconds, and whether Holter's saves.

    The plain block of an entry is the one before that with Holter. Turns of a switched training are shorter, so there
    are more of them.
    """
    framework, own = FRAMEWORKS[name], OwnTime()
    _watch(own, framework)
    sides, num = (_switched_sides, 3 * num_blocks // 2) if framework.is_switched else (_twin_sides, num_blocks)
    plain, worn, saves = sides(name, own, num + _NUM_WARM_UP_BLOCKS + 1)  # the last plain one is after the last worn
    blocks = [
        {"plain": one, "worn": other, "saves": is_saving}
        for one, other, is_saving in zip(plain, worn, saves, strict=False)
    ]
    return blocks[_NUM_WARM_UP_BLOCKS:]


def _switched_sides(name: str, own: OwnTime, num_blocks: int) -> tuple[Means, Means, list[bool]]:
    switched = Switched(_cpu_seconds(name), own)
    training, batch_size = _training(name)
    _train(training, switched.begin_step, num_steps_of(num_blocks), batch_size, SAVE_EVERY, _run(name))
    return switched.plain, switched.worn, switched.saves


def _twin_sides(name: str, own: OwnTime, num_blocks: int) -> tuple[Means, Means, list[bool]]:
    block_steps = _TWIN_BLOCK_STEPS
    plain, worn = (Side(block_steps, _cpu_seconds(name), lambda: own.seconds) for _ in range(2))
    training, batch_size = _training(name)

    def train(side: Side) -> None:
        run = _run(name, FRAMEWORKS[name].applies) if side is worn else None
        _train(training, side.begin_step, block_steps * (num_blocks + 1), batch_size, _TWIN_SAVE_EVERY, run)

    take_turns(plain, worn, train)
    plain_means, worn_means = ([_means(block) for block in side.blocks()] for side in (plain, worn))
    saves = [at * block_steps % _TWIN_SAVE_EVERY == 0 for at in range(1, len(worn_means) + 1)]
    return plain_means, worn_means, saves


def measure_memory(name: str, side: str) -> dict[str, float]:
    """The most that this process ever held, after a training alone: ``plain``, ``worn``, or ``keeping`` states too."""
    training, _ = _training(name)
    run = None if side == "plain" else _run(name, FRAMEWORKS[name].applies if side == "keeping" else ())
    _train(training, lambda: None, _MEMORY_STEPS, _MEMORY_BATCH, SAVE_EVERY, run)
    return {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _watch(own: OwnTime, framework: Framework) -> None:
    for watch, methods in ((own.watch, framework.own), (own.leave_out, framework.steps)):
        for module, owner, names in methods:
            watch(getattr(importlib.import_module(module), owner), names)


def _train(
    training: Training, begin_step: Callable[[], None], num_steps: int, batch_size: int, save_every: int,
    run: Run | None,
) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training(Trained(begin_step, num_steps, batch_size, save_every, Path(folder), run))
        if run is not None:
            run.finish()


def _cpu_seconds(name: str) -> Callable[[], float]:
    clock: Callable[[], float] = importlib.import_module(FRAMEWORKS[name].module).cpu_seconds
    return clock


def _training(name: str) -> tuple[Training, int]:
    framework = FRAMEWORKS[name]
    module = importlib.import_module(framework.module)
    if framework.num_ranks > 1:
        module.distributed.init_process_group("gloo")
    return getattr(module, framework.loop), fitting_batch_size(module.seconds_of, module.SIZES)


def _run(name: str, applies: tuple[EffectName, ...] = ()) -> Run:
    return init("bench", f"{name}-{os.environ.get('TORCHELASTIC_RUN_ID', time.time_ns())}", allow=applies)


def _means(steps: list[StepSeconds]) -> StepSeconds:
    return StepSeconds(*(sum(each) / len(steps) for each in zip(*steps, strict=True)))


def main(arguments: list[str]) -> None:
    name, kind, setting = arguments
    said = measure_cost(name, int(setting)) if kind == "cost" else measure_memory(name, setting)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1:])
