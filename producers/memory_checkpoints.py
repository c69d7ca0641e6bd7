"""Checkpoints in memory, of a loop without a ``Guard``: states that it made, and may be taken back to."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holter.producers.actions import CannotApply
from holter.producers.checkpoint_names import checkpoint_name
from holter.producers.run import Run
from holter.schemas.control import Rollback
from holter.schemas.telemetry import CheckpointSaved

StateT = TypeVar("StateT")


@dataclass(eq=False)
class _Kept(Generic[StateT]):
    name: str
    step: int
    state: StateT
    is_healthy: bool = False


class MemoryCheckpoints(Generic[StateT]):
    """The newest few states and the newest that was called healthy; they are lost with the process.

    A loop that allows ``rollback`` keeps them, or is never asked to go back::

        if checkpoints.is_due(step):
            checkpoints.keep(step, (params, moments))
        for action in run.poll_actions():
            with action as a:
                for effect in a.effects:
                    if isinstance(effect, Rollback):
                        params, moments = checkpoints.restore(effect)
                        a.done(step, effect.step)
                        step = effect.step

    States are kept as they are given: one that the loop goes on to change in place has to be copied first, into the
    buffers of what :meth:`make_room` returns, if it likes. Arrays of JAX cannot change: keeping them copies nothing.
    Where the loop donates them to a compiled function, which deletes them, they are dropped with one line.

    Args:
        every_steps: between two states. One is called healthy 20 steps after it, so that ``every_steps * (keep - 1)``
            should be more than that.
        keep: how many of the newest, besides the newest healthy one.

    Raises:
        ValueError: one of the two is less than 1.
    """

    def __init__(self, run: Run, every_steps: int = 25, keep: int = 2) -> None:
        if min(every_steps, keep) < 1:
            raise ValueError("every_steps and keep must be at least 1")
        self._run = run
        self._every_steps = every_steps
        self._keep = keep
        self._kept: list[_Kept[StateT]] = []
        self._dropped: list[str] = []
        """Names that are not announced yet."""

    def is_due(self, step: int) -> bool:
        """Never in a run that nobody watches, or where ``rollback`` is not allowed."""
        run = self._run
        return run.enabled and step % self._every_steps == 0 and "rollback" in run.allowed

    def make_room(self) -> StateT | None:
        """Lets the oldest give way before a further one is made; returns what nobody needs any more."""
        self._hear_health()
        given_up = self._rotate(self._keep - 1)
        return given_up[-1].state if given_up else None

    def keep(self, step: int, state: StateT, save_seconds: float = 0.0) -> None:
        """Takes the state after ``step``, of which values were logged before; the oldest give way."""
        self._hear_health()
        name = checkpoint_name(self._run.attempt, step)
        self._kept = [kept for kept in self._kept if kept.name != name]
        self._drop_deleted()
        self._kept.append(_Kept(name, step, state))
        self._rotate(self._keep)
        dropped, self._dropped = self._dropped, []
        self._run.event(CheckpointSaved(name, save_seconds, tier="memory", dropped=dropped), step)

    def restore(self, effect: Rollback) -> StateT:
        """The state to go back to; later ones are of a line that ends and are kept no longer.

        Raises:
            CannotApply: it is kept no longer. Left alone it ends the action's block, as refused.
        """
        self._drop_deleted()
        state = next((kept.state for kept in self._kept if kept.name == effect.checkpoint), None)
        if state is None:
            raise CannotApply(f"checkpoint {effect.checkpoint} is kept no longer")
        self._kept = [kept for kept in self._kept if kept.step <= effect.step]
        return state

    def _hear_health(self) -> None:
        control = self._run.control
        names = set() if control is None else set(control.take_healthy())
        for kept in self._kept:
            kept.is_healthy = kept.is_healthy or kept.name in names

    def _rotate(self, num_newest: int) -> list[_Kept[StateT]]:
        """Returns those that gave way to so many and the newest healthy one."""
        healthy = next((kept for kept in reversed(self._kept) if kept.is_healthy), None)
        older = self._kept[: max(0, len(self._kept) - num_newest)]
        return self._drop([kept for kept in older if kept is not healthy])

    def _drop_deleted(self) -> None:
        if self._drop([kept for kept in self._kept if _is_deleted(kept.state)]):
            self._run.notices.warn(
                "deleted_state",
                "a kept state was donated to a compiled function: copy it before, jax.tree.map(jnp.copy, state)",
            )

    def _drop(self, dropped: list[_Kept[StateT]]) -> list[_Kept[StateT]]:
        self._dropped += [kept.name for kept in dropped]
        self._kept = [kept for kept in self._kept if kept not in dropped]
        return dropped


def _is_deleted(state: object) -> bool:
    """Whether JAX has deleted one of its arrays; without JAX there are none."""
    jax: Any = sys.modules.get("jax")
    return jax is not None and any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(state))
