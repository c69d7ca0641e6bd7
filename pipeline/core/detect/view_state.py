"""The stored form of a view."""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from operator import sub

from msgspec import Struct

from holter.pipeline.core.detect.ceiling import CeilingState
from holter.pipeline.core.detect.excursions import ExcursionState
from holter.pipeline.core.detect.levels import LevelState
from holter.pipeline.core.detect.own_record import RecordState


class ViewState(Struct):
    """Values and residuals are raw little-endian float64; of steps the first and the differences are kept."""

    is_log: bool = True
    start: float = 0.0
    offset: float = 0.0
    values: bytes = b""
    steps: list[int] = []
    num_short: int = 0
    residuals: bytes = b""
    residual_steps: list[int] = []
    count: int = 0
    center: float = 0.0
    scale: float = math.nan
    reference: float = 0.0
    allowance: float = 0.0
    quantum: float = math.inf
    num_rejected: int = 0
    num_nonpositive: int = 0
    drift: float = 0.0
    drift_peak: float = 0.0
    drift_limit: float = math.inf
    is_suspended: bool = False
    excursions: ExcursionState | None = None
    record: RecordState | None = None
    ceiling: CeilingState | None = None
    levels: LevelState | None = None


def pack(values: deque[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def unpack(raw: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(raw) // 8}d", raw)


def pack_steps(steps: deque[int]) -> list[int]:
    """
    >>> list(unpack_steps(pack_steps(deque([7, 9, 12]))))
    [7, 9, 12]
    """
    if not steps:
        return []
    return [steps[0], *map(sub, islice(steps, 1, None), steps)]


def unpack_steps(steps: Iterable[int]) -> Iterator[int]:
    return accumulate(steps)
