"""What a language model's loss is while it knows nothing: the absolute scale that its own log may not show."""

from __future__ import annotations

import math
from collections.abc import Mapping

from holter.schemas.bounds import Scalar

_NAMES = frozenset({"vocab_size", "vocabulary_size", "padded_vocab_size", "n_vocab"})
_HIGHEST_START = 1.25


def uniform_loss(config: Mapping[str, Scalar]) -> float:
    """The cross-entropy in nats of a uniform guess over the vocabulary that a run's configuration names, by itself or
    under a dotted prefix; NaN where it names none.

    >>> round(uniform_loss({"model.vocab_size": 50257}), 3)
    10.825
    >>> uniform_loss({"lr": 0.1})
    nan
    """
    for name, value in config.items():
        if name.rpartition(".")[2] in _NAMES and isinstance(value, int) and value > 1:
            return math.log(value)
    return math.nan


def untrained_level(start: float, uniform: float) -> float:
    """The level that a run's progress is counted from: its own first one, or where it was taken up in the middle, that
    of a model that knows nothing. A start far above says that the loss is in another unit.

    >>> untrained_level(2.5, 10.8), untrained_level(10.9, 10.8), untrained_level(2.5, math.nan)
    (10.8, 10.9, 2.5)
    """
    if math.isnan(uniform) or start > _HIGHEST_START * uniform:
        return start
    return uniform if math.isnan(start) else max(start, uniform)
