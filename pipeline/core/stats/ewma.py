"""An average that forgets."""

from __future__ import annotations

import math

from holter.pipeline.core.stats.moments import LARGEST
from holter.pipeline.core.stats.stored import StoredForm


class Ewma:
    """Exponentially weighted mean, unbiased from its first value on, over steps that need not be evenly spaced.

    A value that is a steps old weighs decay**a. Both the weighted sum and the sum of weights are kept and their
    quotient is the mean, which for even spacing is the bias correction of Adam (Kingma and Ba 2015, section 3), and for
    uneven spacing what a value for each missing step, equal to the mean, would give. What is forgotten cannot be
    taken back without loss, so there is no ``revert``. Values that are not finite, or beyond 1e150, are left out.

    Args:
        decay: weight of a value that is one step old, in (0, 1).

    >>> ewma = Ewma(0.5)
    >>> ewma.update(3.0)
    >>> ewma.mean()
    3.0
    >>> ewma.update(6.0)
    >>> ewma.mean()
    5.0
    >>> ewma.update(0.0, num_steps=10)
    >>> round(ewma.mean(), 3)
    0.007
    """

    __slots__ = ("_decay", "_num_steps", "_sum", "_weight")

    _form = StoredForm("ewma", 1, "dddd")

    def __init__(self, decay: float) -> None:
        if not 0.0 < decay < 1.0:
            raise ValueError(f"decay must be in (0, 1), got {decay}")
        self._decay = decay
        self._sum = 0.0
        self._weight = 0.0
        self._num_steps = 0.0

    @classmethod
    def of_half_life(cls, num_steps: float) -> Ewma:
        """One in which a value weighs half after so many steps."""
        return cls(0.5 ** (1.0 / num_steps))

    def update(self, value: float, num_steps: float = 1.0) -> None:
        """Takes the value that comes ``num_steps`` after the one before."""
        if not -LARGEST <= value <= LARGEST:
            return
        kept = self._decay**num_steps
        self._sum = self._sum * kept + value
        self._weight = self._weight * kept + 1.0
        self._num_steps += num_steps

    def merge(self, later: Ewma) -> None:
        """Goes on with what ``later`` was given, which begins where this one ends.

        Raises:
            ValueError: the two forget at different rates.
        """
        if later._decay != self._decay:
            raise ValueError(f"decays differ: {self._decay} and {later._decay}")
        kept = self._decay**later._num_steps
        self._sum = self._sum * kept + later._sum
        self._weight = self._weight * kept + later._weight
        self._num_steps += later._num_steps

    def mean(self) -> float:
        """NaN where there are no values."""
        return self._sum / self._weight if self._weight else math.nan

    def to_bytes(self) -> bytes:
        return self._form.pack(self._decay, self._sum, self._weight, self._num_steps)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Ewma:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        decay, *rest = cls._form.unpack(raw)
        ewma = cls(decay)
        ewma._sum, ewma._weight, ewma._num_steps = rest
        return ewma
