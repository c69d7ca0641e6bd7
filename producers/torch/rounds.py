"""Rounds in which every rank says a few integers and hears the greatest of each, over a gloo group of their own."""

from __future__ import annotations

import itertools
from collections import deque
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import distributed

from holter.producers.torch.ranks import Word

LEFT = 2**62
"""In the place of ``wants_action``: whoever says it takes part in no further round."""
_OPERATION_TIMEOUT = timedelta(minutes=10)
_NUM_KEPT = 64
"""Far more rounds than can be in flight."""


class NoAgreement(Exception):
    """The ranks do not agree on anything any more; the message says why."""


class Round:
    """One in flight."""

    def __init__(self, work: Any, values: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._work = work
        self._values = values

    def heard(self, patience_seconds: float) -> Word:
        """Waits, normally not at all.

        Raises:
            NoAgreement: a rank left or is too far behind.
            RuntimeError: a rank is gone.
        """
        try:
            self._work.wait(timedelta(seconds=patience_seconds))
        except RuntimeError:
            if self._work.is_completed():
                raise
            raise NoAgreement(f"a rank is more than {patience_seconds:g} s behind") from None
        if self._says_farewell():
            raise NoAgreement("a rank has left or waited in vain")
        return Word(*self._values.tolist())

    @property
    def has_failed(self) -> bool:
        """Whether it is known that a rank left or is gone: then the connections to it are."""
        if not self._work.is_completed():
            return False
        try:
            self._work.wait()
        except RuntimeError:
            return True
        return self._says_farewell()

    def _says_farewell(self) -> bool:
        return int(self._values[0]) >= LEFT


class Rounds:
    """Made together by all ranks, who then have to begin the same rounds in the same order."""

    def __init__(self) -> None:
        self._group = distributed.new_group(backend="gloo", timeout=_OPERATION_TIMEOUT)
        self._greatest = distributed.AllreduceOptions()
        self._greatest.reduceOp = distributed.ReduceOp(distributed.ReduceOp.MAX)
        tensors = [torch.zeros(len(Word()), dtype=torch.int64) for _ in range(_NUM_KEPT)]
        self._buffers = itertools.cycle([(tensor, tensor.numpy()) for tensor in tensors])

    def begin(self, said: Word) -> Round:
        """Returns at once."""
        tensor, values = next(self._buffers)
        values[:] = said
        begun = Round(self._group.allreduce([tensor], self._greatest), values)
        _newest.append(begun)
        return begun


_newest: deque[Round] = deque(maxlen=_NUM_KEPT)
"""Until the interpreter is gone: a thread of gloo that is the last to let go of a tensor asks for the interpreter, and
where that is going just then, the process ends with SIGABRT."""
