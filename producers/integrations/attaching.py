"""What the integrations share: whose run it is, and methods of another library's objects that are listened to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from holter import producers
from holter.producers.run import Run


def check_one_given(run: Run | None, project: str | None) -> None:
    """Raises :class:`ValueError` where neither was given, or both."""
    if (run is None) == (project is None):
        raise ValueError("give either project=, for a run of its own, or run=, from producers.init")


def given_or_new_run(run: Run | None, project: str | None, config: object) -> Run:
    """One of the two was given. Raises :class:`ValueError` where the project's name cannot be used."""
    return run if run is not None else producers.init(str(project), config=config)


def after_each_call(owner: Any, method: str, hear: Callable[[Any], None]) -> Callable[[], None]:
    """Calls ``hear`` with what each call of this one object's method returned.

    Returns:
        What takes that back.
    """
    own = getattr(owner, method)

    @functools.wraps(own)
    def listened(*args: Any, **kwargs: Any) -> Any:
        returned = own(*args, **kwargs)
        hear(returned)
        return returned

    setattr(owner, method, listened)
    return lambda: vars(owner).pop(method, None)


def inner_scheduler(scheduler: Any | None) -> Any | None:
    """The scheduler that writes the rates, out of wrappers that name it ``scheduler``."""
    inner = getattr(scheduler, "scheduler", None)
    return scheduler if inner is None else inner_scheduler(inner)
