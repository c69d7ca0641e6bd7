"""Optimizers by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from holter.producers.torch.optim.clippy import Clippy
from holter.producers.torch.optim.clippy_adagrad import ClippyAdagrad
from holter.producers.torch.optim.msign import MSign
from holter.producers.torch.optim.skip_step import SkipStep
from holter.producers.torch.optim.spam import Spam
from holter.producers.torch.optim.stable_spam import StableSpam
from holter.producers.torch.optim.wrapper import Wrapper

Maker = Callable[..., torch.optim.Optimizer]
_WHOLE: dict[str, Maker] = {
    "clippy": Clippy,
    "clippy_adagrad": ClippyAdagrad,
    "spam": Spam,
    "stable_spam": StableSpam,
}
_WRAPPERS: dict[str, type[Wrapper]] = {"msign": MSign, "skip_step": SkipStep}
OPTIMIZERS = (*_WHOLE, *_WRAPPERS)


def make(name: str, parameters: Any, *, base: Maker = torch.optim.AdamW, **options: Any) -> torch.optim.Optimizer:
    """The optimizer of that name. ``msign`` and ``skip_step`` wrap one that ``base`` makes of the remaining options.

    Raises:
        ValueError: there is none, or it does not take an option or its value.

    >>> weights = [torch.nn.Parameter(torch.ones(2, 2))]
    >>> type(make("msign", weights, every=10, lr=1e-3).base).__name__
    'AdamW'
    """
    try:
        if name in _WRAPPERS:
            return _wrapped(_WRAPPERS[name], parameters, base, options)
        if name in _WHOLE:
            return _WHOLE[name](parameters, **options)
    except TypeError as error:
        raise ValueError(f"optimizer {name!r}: {error}") from error
    raise ValueError(f"there is no optimizer {name!r}; there are {', '.join(OPTIMIZERS)}")


def _wrapped(wrapper: Any, parameters: Any, base: Maker, options: dict[str, Any]) -> torch.optim.Optimizer:
    names = inspect.signature(wrapper.__init__).parameters
    own = {name: value for name, value in options.items() if name in names}
    optimizer: torch.optim.Optimizer = wrapper(
        base(parameters, **{name: value for name, value in options.items() if name not in own}), **own
    )
    return optimizer
