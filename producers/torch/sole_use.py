"""One ``Guard`` or ``Hooks`` to an optimizer, and nobody beside a ``Guard`` takes its steps: else one line says so."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

import torch

from holter.producers.notices import Notices

GUARDED = "this optimizer is guarded already: one Guard, Hooks or integration for each"
OUTSIDE = "optimizer.step() was called beside guard.step(), which calls it: leave it out of the loop"
_OWN_HOOKS = "_optimizer_step_pre_hooks"
_used: weakref.WeakKeyDictionary[Any, SoleUse | None] = weakref.WeakKeyDictionary()
"""By whom; None is said of ``Hooks``."""


class SoleUse:
    """Of one optimizer, until :meth:`end`. Optimizers without hooks of their own are not looked at."""

    def __init__(self, optimizer: Any, notices: Notices) -> None:
        self._notices = notices
        self._optimizer = optimizer if has_step_hooks(optimizer) else None
        self._num_outside = 0
        self._is_shared = False
        self._remove: Callable[[], None] = lambda: None
        if self._optimizer is None:
            return
        if self._optimizer in _used:
            notices.warn("guarded_twice", GUARDED)
            self._share(_used[self._optimizer])
        else:
            _used[self._optimizer] = self
            self._remove = self._optimizer.register_step_post_hook(self._count).remove

    def begin_step(self) -> None:
        """The owner is about to take the step, which nobody else should have taken."""
        if self._num_outside and not self._is_shared:
            self._notices.warn("outside_step", OUTSIDE)

    def end_step(self) -> None:
        self._num_outside = 0

    def end(self) -> None:
        self._remove()
        if self._optimizer is not None and _used.get(self._optimizer) is self:
            del _used[self._optimizer]

    def _share(self, other: SoleUse | None) -> None:
        """That each sees the other's steps needs no second line."""
        for one in (self, other):
            if one is not None:
                one._is_shared = True

    def _count(self, *step: object) -> None:
        self._num_outside += 1


def has_step_hooks(optimizer: Any) -> bool:
    """Whether it is one of torch's whose constructor ran, and no wrapper that only looks like one."""
    return isinstance(optimizer, torch.optim.Optimizer) and _OWN_HOOKS in vars(optimizer)


def use(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """For ``Hooks``; returns what ends it.

    Raises:
        ValueError: it is guarded already.
    """
    if optimizer in _used:
        raise ValueError(GUARDED)
    _used[optimizer] = None

    def release() -> None:
        _used.pop(optimizer, None)

    return release


def needs_closure(optimizer: Any) -> bool:
    """Whether its ``step`` cannot be called without one, as that of ``torch.optim.LBFGS``.

    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> needs_closure(torch.optim.LBFGS([weight])), needs_closure(torch.optim.SGD([weight]))
    (True, False)
    """
    try:
        closure = inspect.signature(optimizer.step).parameters.get("closure")
    except (TypeError, ValueError):  # not one that Python can look into
        return False
    return closure is not None and closure.default is inspect.Parameter.empty
