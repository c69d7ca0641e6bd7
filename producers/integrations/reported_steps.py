"""An optimizer that an engine steps by itself, as :class:`~holter.producers.torch.hooks.Hooks` sees one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from holter.producers.notices import logger
from holter.producers.torch.hooks import Hooks
from holter.producers.torch.training_state import Stateful
from holter.schemas.bounds import EffectName


class ReportedSteps(torch.optim.Optimizer):
    """Has the engine's parameter groups; its :meth:`step` says that the engine took one, and does nothing.

    The inner optimizers of such engines hold parts of the weights, are stepped several times for one step, and get
    gradients that were clipped: their own hooks would tell wrong numbers. Its state is what ``kept`` knows of the
    engine's; without that it is the engine's alone.
    """

    def __init__(self, owner: Any, kept: Stateful | None = None) -> None:
        self._owner = owner
        self._kept = kept
        self.defaults: dict[str, Any] = {}
        self.state = {}  # type: ignore[assignment]
        self.__setstate__({})  # makes what hooks need; __init__ would add its own groups

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The live ones: engines replace the list."""
        groups: list[dict[str, Any]] = self._owner.param_groups
        return groups

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """The engine has taken it."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._owner.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """In the form of torch's, whose groups and moments are those in ``engine``."""
        engine = None if self._kept is None else self._kept.state_dict()
        return {"state": {}, "param_groups": [{} for _ in self.param_groups], "engine": engine}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._kept is not None:
            self._kept.load_state_dict(state["engine"])


class EngineScale:
    """The loss scale of an engine that skips steps by itself, read as that of a ``GradScaler``; None has none."""

    skips_together = True
    """Engines agree on a step to skip over all ranks."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    @property
    def _scale(self) -> torch.Tensor | None:
        """A copy: the scale is the engine's."""
        scale = self._read()
        return None if scale is None else torch.as_tensor(scale, dtype=torch.float32).clone().reshape(())

    def is_enabled(self) -> bool:
        return True

    def update(self) -> None:
        """:class:`ReportedSteps` calls it after each step, skipped or not."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """It is the engine's."""


def report_step(hooks: Hooks, optimizer: ReportedSteps, scale: EngineScale | None, applied: bool, norm: Any) -> None:
    """Tells the hooks of a step that is over. ``norm`` is the whole model's; of a skipped step it may be None."""
    hooks.see_gradients(math.inf if norm is None and not applied else norm)
    if applied or scale is None:
        optimizer.step()
    if scale is not None:
        scale.update()


def without(effects: frozenset[EffectName], allow: Any, why: str) -> frozenset[EffectName]:
    """What is left of ``allow``; what an engine makes impossible is told in a line."""
    allowed = frozenset(allow)
    if lacking := sorted(allowed & effects):
        logger.warning("allowed but not possible here: %s (%s)", ", ".join(lacking), why)
    return allowed - effects


def without_nan_guard(allow: Any, why: str) -> frozenset[EffectName]:
    """For engines that take every step: nobody can withhold theirs."""
    return without(frozenset({"nan_guard"}), allow, why)
