"""A factor on a setting of the user's: bounded, and taken back by itself where that was asked for."""

from __future__ import annotations

MIN_FACTOR = 0.1
MAX_FACTOR = 1.0


class RampedFactor:
    """1 until it is set; then it stays, or climbs back to 1 in even steps.

    >>> factor = RampedFactor()
    >>> factor.set(0.5, ramp_steps=2)
    >>> factor.advance(), factor.advance(), factor.advance()
    (0.75, 1.0, 1.0)
    """

    def __init__(self) -> None:
        self.value = 1.0
        self._lowest = 1.0
        self._num_steps = self._num_done = 0

    @property
    def is_ramping(self) -> bool:
        return self._num_done < self._num_steps

    def set(self, value: float, ramp_steps: int = 0) -> None:
        """Raises :class:`ValueError` outside [.1, 1]."""
        if not MIN_FACTOR <= value <= MAX_FACTOR:
            raise ValueError(f"factor {value} is outside [{MIN_FACTOR}, {MAX_FACTOR}]")
        self.value = self._lowest = value
        self._num_steps, self._num_done = ramp_steps, 0

    def advance(self) -> float:
        """One step later; returns the value that holds now."""
        if self.is_ramping:
            self._num_done += 1
            climbed = (1.0 - self._lowest) * self._num_done / self._num_steps
            self.value = self._lowest + climbed if self.is_ramping else 1.0
        return self.value

    def state(self) -> list[float]:
        return [self.value, self._lowest, self._num_steps, self._num_done]

    def load(self, state: list[float]) -> None:
        self.value, self._lowest = float(state[0]), float(state[1])
        self._num_steps, self._num_done = int(state[2]), int(state[3])
