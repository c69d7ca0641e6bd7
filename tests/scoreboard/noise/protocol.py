"""A healthy language-model run: a loss that decays as a power law with correlated noise, a log-normal gradient norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.series import Array, autoregressive


@dataclass(frozen=True)
class ProtocolRun:
    """Loss = floor + span · (1 + t/tau)^−power + AR(1) noise with Student-t innovations of sd ``loss_sd``."""

    floor: float = 2.2
    span: float = 8.0
    tau: float = 50.0
    power: float = 0.6
    correlation: float = 0.3
    degrees: float = 6.0
    loss_sd: float = 0.035
    grad_level: float = 0.3
    grad_log_sd: float = 0.15

    def columns(self, random: np.random.Generator, num_values: int) -> dict[str, Array]:
        curve = self.floor + self.span * (1.0 + np.arange(num_values) / self.tau) ** -self.power
        unit = random.standard_t(self.degrees, num_values) / np.sqrt(self.degrees / (self.degrees - 2.0))
        noise = autoregressive(self.loss_sd * unit, self.correlation)
        log_norm = autoregressive(self.grad_log_sd * random.standard_normal(num_values), self.correlation)
        falling = 1.0 + 5.0 * np.exp(-np.arange(num_values) / self.tau)
        return {LOSS: curve + noise, GRAD_NORM: self.grad_level * falling * np.exp(log_norm)}
