"""The largest gradient norm that a step may have."""

from __future__ import annotations

from holter.producers.torch.ramped_factor import RampedFactor


class ClipThreshold:
    """What the user configured, times a factor that an action may set."""

    def __init__(self, configured: float) -> None:
        self.configured = configured
        self._factor = RampedFactor()

    @property
    def value(self) -> float:
        return self.configured * self._factor.value

    def set(self, factor: float, ramp_steps: int = 0) -> None:
        """Raises :class:`ValueError` where the factor is outside its bounds."""
        self._factor.set(factor, ramp_steps)

    def advance(self) -> None:
        self._factor.advance()

    def state(self) -> list[float]:
        return self._factor.state()

    def load(self, state: list[float]) -> None:
        self._factor.load(state)
