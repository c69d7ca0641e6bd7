"""Whether an applied action helped, measured after it."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from msgspec import Struct

from holter.schemas.bounds import EffectName

Result = Literal["recovered", "unchanged", "worse", "unknown"]

MEASURED_AFTER_STEPS = 50


class PendingOutcome(Struct):
    """Levels are medians of the last 9 losses; ``due`` is a count of executed steps."""

    action: str
    incident: str
    level_before: float
    base_loss: float
    scale: float
    due: int
    lost_steps: int
    kind: str = ""
    effects: list[EffectName] = []
    is_applied: bool = False


class Measured(NamedTuple):
    result: Result
    level_after: float


def measure(pending: PendingOutcome, level_after: float) -> Measured:
    """Recovered is back inside two scales of the level before the incident; unchanged is within one of where it was.

    >>> pending = PendingOutcome("a", "i", level_before=4.0, base_loss=2.0, scale=0.1, due=0, lost_steps=0)
    >>> [measure(pending, level).result for level in (2.1, 3.0, 4.05, 5.0, math.nan)]
    ['recovered', 'unchanged', 'unchanged', 'worse', 'worse']
    """
    if not math.isfinite(level_after):
        return Measured("worse", level_after)
    if math.isnan(pending.base_loss):
        return Measured("unknown", level_after)
    if level_after <= pending.base_loss + 2 * pending.scale:
        return Measured("recovered", level_after)
    if math.isfinite(pending.level_before) and level_after > pending.level_before + pending.scale:
        return Measured("worse", level_after)
    return Measured("unchanged", level_after)
