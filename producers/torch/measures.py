"""What is published of every step."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from holter.producers.records import BatchFacts
from holter.producers.run import Run
from holter.producers.torch.device_values import DeviceValues, host_value, on_host
from holter.producers.torch.reflex_reports import ReflexReports
from holter.producers.torch.weight_check import WeightCheck
from holter.schemas.telemetry import (
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    LOSS_SCALE,
    STEP_SECONDS,
    UPDATE_NORM,
    WEIGHT_NORM,
)

_APPLIED = "applied"


class StepMeasures:
    """Collects the scalars of a step on their device and hands the step over once they are on the host."""

    def __init__(self, run: Run, parameters: Sequence[torch.Tensor], facts: BatchFacts, reports: ReflexReports) -> None:
        self.num_skipped = 0
        self._run = run
        self._reports = reports
        self._facts = facts
        self._weights = WeightCheck(parameters)
        self._values = DeviceValues(parameters[0].device)
        self._losses: torch.Tensor | float | None = None
        self._num_losses = 0
        self._tells_loss = False
        self._last_end = time.perf_counter()

    def add_loss(self, loss: torch.Tensor) -> None:
        """The loss of one micro-batch; the step's is their mean."""
        value = on_host(loss)
        self._losses = value if self._losses is None else self._losses + value
        self._num_losses += 1
        self._tells_loss = True

    def publish(
        self,
        step: int,
        applied: bool | torch.Tensor,
        learning_rate: float | torch.Tensor,
        norm: float | torch.Tensor | None,
        update: float | torch.Tensor | None,
        loss_scale: torch.Tensor | None,
    ) -> None:
        if self._tells_loss and not self._num_losses:
            self._run.notices.warn("step_without_loss", "step() was called without a loss since the last one")
        ts_ms = time.time_ns() // 1_000_000
        known = {STEP_SECONDS: self._seconds()}
        scalars: dict[str, torch.Tensor] = {}
        for name, value in (
            (LOSS, self.mean_loss()),
            (GRAD_NORM, norm),
            (UPDATE_NORM, update),
            (LEARNING_RATE, learning_rate),
            (LOSS_SCALE, loss_scale),
            (WEIGHT_NORM, self._weights.measure()),
            (_APPLIED, applied),
        ):
            if type(value) is float:
                known[name] = value
            elif isinstance(value, torch.Tensor):
                scalars[name] = value
            elif value is not None:
                known[name] = float(value)
        self._losses, self._num_losses = None, 0
        if not scalars and self._values.is_immediate:
            self._deliver(step, ts_ms, known)
        else:
            names = list(scalars)
            self._values.send(
                list(scalars.values()),
                lambda values: self._deliver(step, ts_ms, known | dict(zip(names, values, strict=True))),
            )

    def flush(self) -> None:
        self._values.flush()

    def restart(self) -> None:
        """After the weights were restored: the time that took is no step's."""
        self._losses, self._num_losses = None, 0
        self._last_end = time.perf_counter()

    def _deliver(self, step: int, ts_ms: int, metrics: dict[str, float]) -> None:
        applied = metrics.pop(_APPLIED, 1.0) != 0.0
        norm = metrics.get(GRAD_NORM)
        self.num_skipped += not applied
        self._run.log_step(metrics, step, ts_ms, applied, self._facts)
        self._weights.arrived(norm)
        self._reports.arrived(step, norm, applied)

    def mean_loss(self) -> torch.Tensor | float | None:
        """Of the micro-batches since the last step."""
        if self._losses is None or self._num_losses == 1:
            return self._losses
        return self._losses / self._num_losses

    def _seconds(self) -> float:
        now = time.perf_counter()
        seconds, self._last_end = now - self._last_end, now
        return seconds


def learning_rate_of(optimizer: torch.optim.Optimizer) -> float | torch.Tensor:
    """That of the first group, without waiting for a device."""
    rate = optimizer.param_groups[0]["lr"]
    if isinstance(rate, torch.Tensor):
        return host_value(rate) if rate.device.type == "cpu" else rate
    return float(rate)
