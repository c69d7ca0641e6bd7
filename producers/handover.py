"""What the training thread hands to the sender. Making one is all that a call in the training loop costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from holter.producers.records import BatchFacts, Origin
from holter.schemas.bounds import AckStatus
from holter.schemas.telemetry import EffectReport, Event


class Logged(Struct):
    """Values of a step (None: of the next), complete with ``commit``."""

    step: int | None
    ts_ms: int
    values: dict[str, Any]
    commit: bool


class CountedStep(Struct):
    """All of a guard's values of a step: it is complete."""

    step: int
    ts_ms: int
    values: dict[str, Any]
    applied: bool
    facts: BatchFacts


@dataclass(frozen=True)
class Happened:
    event: Event
    step: int | None
    ts_ms: int


@dataclass(frozen=True)
class Response:
    """What is said about an action. ``step`` None is the last one begun."""

    action: str
    action_attempt: int
    ordinal: int
    status: AckStatus
    step: int | None = None
    reason: str = ""
    digest: str = ""
    effects: tuple[EffectReport, ...] = ()
    latency_ms: float | None = None


@dataclass(frozen=True)
class Acknowledged:
    response: Response
    ts_ms: int


@dataclass(frozen=True)
class Begun:
    """An attempt begins after ``last_step``; ``counted`` where a guard says when a step is complete."""

    origin: Origin
    last_step: int
    counted: bool


@dataclass(frozen=True)
class Ended:
    """Nothing more comes: what is open is complete."""


Handover = Logged | CountedStep | Happened | Acknowledged | Begun | Ended
