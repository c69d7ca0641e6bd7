"""Whether the weights may hold what is not finite."""

from __future__ import annotations

import math

from holter.pipeline.core.recent import RecentValues
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import WEIGHT_NORM


def may_be_in_weights(record: StepRecord, recent: RecentValues, num_losses: int, most_losses: int) -> bool:
    """The trainer says so, or a step was taken with such a value.

    Losses that go on being so come from the weights as well: ``num_losses`` in a row are, up to now. Gradients alone do
    not, as long as their steps are left out and the losses are finite.
    """
    if not math.isfinite(record.values.get(WEIGHT_NORM, 0.0)) or recent.has_taken_non_finite():
        return True
    return num_losses >= most_losses
