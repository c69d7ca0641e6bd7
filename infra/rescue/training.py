"""One stretch of training in this process, worn by Holter in lockstep."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from holter.infra.rescue.faults import Fault
from holter.infra.rescue.workload import Batch, Setup
from holter.producers.run import Run
from holter.producers.torch import Guard
from holter.schemas.bounds import EffectName

CHECKPOINT_EVERY = 20
LOOK_EVERY = 50
_FAR = 10**9
_PATIENCE_SECONDS = 60.0
"""A busy machine is no reason for the ranks to part."""


@dataclass
class Trained:
    """What came of it. ``curve`` is (executed steps, held-out loss), from before the first to after the last one."""

    curve: list[tuple[int, float]] = field(default_factory=list)
    final_step: int = 0
    fault_executed: int | None = None
    """The executed steps when it struck first, and the step as the trainer counted it."""
    fault_step: int | None = None
    step_seconds: list[float] = field(default_factory=list)
    """Of a whole guarded step on this machine, without the waiting for the judge."""
    save_step_seconds: list[float] = field(default_factory=list)
    """The same for steps that began a checkpoint."""


class Pacer(Protocol):
    """Whom a run's steps wait for."""

    run: Run

    def settle(self, step: int, saves: bool) -> None: ...


@dataclass(frozen=True)
class Style:
    """How the guard is worn: which effects may be applied, and whether the run goes on from a checkpoint."""

    allow: tuple[EffectName, ...] = ()
    resume: bool = False
    clip: float | None = None


def train(setup: Setup, pacer: Pacer, checkpoints: Path, fault: Fault, num_steps: int, style: Style) -> Trained:
    """Executes so many steps, redone ones counted, or fewer where Holter stops the run. The run is not finished."""
    guard = _guard(setup, pacer.run, checkpoints, style)
    fault.attach(setup, checkpoints)
    trained = Trained(curve=[(0, setup.held_out())])
    for executed, batch in enumerate(guard.batches(setup.loader, until=_FAR)):
        struck = fault.is_struck(executed, setup.batch_index)
        step = guard.last_step + 1
        if struck:
            _note(trained, executed, step)
        seconds = _take_step(guard, setup, batch, fault if struck else None)
        (trained.step_seconds if step % CHECKPOINT_EVERY else trained.save_step_seconds).append(seconds)
        pacer.settle(step, saves=guard.last_step == step and step % CHECKPOINT_EVERY == 0)
        is_last = executed + 1 == num_steps
        if is_last or (executed + 1) % LOOK_EVERY == 0:
            trained.curve.append((executed + 1, setup.held_out()))
        if is_last:
            break
    trained.final_step = guard.last_step
    return trained


def _guard(setup: Setup, run: Run, checkpoints: Path, style: Style) -> Guard:
    return Guard(
        run,
        setup.model,
        setup.optimizer,
        scheduler=setup.scheduler,
        scaler=setup.scaler,
        checkpoints=checkpoints,
        checkpoint_every=CHECKPOINT_EVERY,
        allow=style.allow,
        clip=style.clip,
        resume=style.resume,
        patience_seconds=_PATIENCE_SECONDS,
    )


def _take_step(guard: Guard, setup: Setup, batch: Batch, fault: Fault | None) -> float:
    """Returns its seconds."""
    begun = time.perf_counter()
    if fault is not None:
        fault.before_step(setup)
    guard.backward(setup.loss(batch))
    if fault is not None:
        fault.after_backward(setup)
    guard.step()
    return time.perf_counter() - begun


def _note(trained: Trained, executed: int, step: int) -> None:
    if trained.fault_executed is None:
        trained.fault_executed, trained.fault_step = executed, step
